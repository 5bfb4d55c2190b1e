-- Puts a claim at the end of its queue, once however often it is asked for, and
-- answers the queue as it is then. The order is drawn when the queue is ours
-- alone. It is above the last one, far above if another server drew that, and
-- never below the clock, so that what a crash forgot does not come twice.
set transaction isolation level read committed;
start transaction read write;
select max(greatest(token + 32, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))
    + if(server in ('', {server}), 0, 4294967296)) into @leasehold_place
from {stripe} where id = {number} for update;
insert into {claim} (name, place, ticket, session, holder, capacity, weight, label, since)
select {name}, @leasehold_place, {ticket}, s.id, {holder}, {capacity}, {weight}, {label},
    utc_timestamp(6)
from {session} s
where s.id = {lease} and s.epoch = {epoch} and s.expires > utc_timestamp(6)
and not exists (
    select 1 from {claim} c
    where c.name = {name} and (c.ticket = {ticket} or c.capacity <> {capacity})
)
and ({waits} or {weight} + (
    select coalesce(sum(c.weight), 0) from {claim} c where c.name = {name}
) <= {capacity});
update {stripe} set token = @leasehold_place, server = {server}
where id = {number} and exists (
    select 1 from {claim} c where c.name = {name} and c.place = @leasehold_place
);
{look};
commit
