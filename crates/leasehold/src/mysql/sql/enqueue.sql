-- Puts a claim at the end of its queue, once however often it is asked for, and
-- answers the queue as it is then. The first seat is taken if nobody is there;
-- having its row is being alone with the queue. An order that was drawn before the
-- term began, while this waited for the row, is not granted in it. On a server that
-- was read only the row was not taken, and nothing is put, even if it takes writes now.
set transaction isolation level read committed;
start transaction read write;
{alone}
set @leasehold_alone = row_count();
select count(ticket), max(if(seat = 0, drawn, 0)), max(if(seat = 0, term, 0))
into @leasehold_queue, @leasehold_place, @leasehold_term
from {claim} where name = {name};
insert into {claim} (name, seat, place, ticket, session, holder, capacity, weight, label,
    since, drawn, queued, term)
select {name}, if(@leasehold_queue = 0, 0, @leasehold_place), @leasehold_place, {ticket}, l.id,
    {holder}, {capacity}, {weight}, {label}, utc_timestamp(6), 0, 0, 0
from (
    select s.id from {session} s
    where s.id = {lease} and s.epoch = {epoch} and s.expires > utc_timestamp(6)
    and not {is_loose} and @leasehold_alone > 0
    and exists (select 1 from {meta} m where {current} and m.term <= @leasehold_term)
) l
where not exists (
    select 1 from {claim} c
    where c.name = {name} and c.ticket is not null
    and (c.ticket = {ticket} or c.capacity <> {capacity})
)
and ({waits} or {weight} + (
    select coalesce(sum(c.weight), 0) from {claim} c
    where c.name = {name} and c.ticket is not null
) <= {capacity})
on duplicate key update place = values(place), ticket = values(ticket),
    session = values(session), holder = values(holder), capacity = values(capacity),
    weight = values(weight), label = values(label), since = values(since), queued = 0;
{look};
commit
