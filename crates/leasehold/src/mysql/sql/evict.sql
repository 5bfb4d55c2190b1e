-- Breaks a claim and notes who did it. Rows of others are not locked: `leave.sql`.
set transaction isolation level read committed;
start transaction read write;
select place from {claim} where name = {name} and seat = 0 and ticket = {ticket} for update;
set @leasehold_seat = null;
select seat into @leasehold_seat from {claim}
where name = {name} and seat > 0 and ticket = {ticket};
select place from {claim} where name = {name} and seat = @leasehold_seat and ticket = {ticket}
for update nowait;
insert ignore into {eviction}
    (ticket, name, token, host, pid, label, evicted_by, reason, at)
select c.ticket, c.name, c.place, coalesce(s.host, ''), coalesce(s.pid, 0),
    coalesce(c.label, s.label, ''), {by}, {reason}, utc_timestamp(6)
from {claim} c left join {session} s on s.id = c.session
where c.name = {name} and c.ticket = {ticket};
update {claim} set ticket = null where name = {name} and seat = 0 and ticket = {ticket};
delete from {claim} where name = {name} and seat = @leasehold_seat and ticket = {ticket};
delete from {eviction} where at < utc_timestamp(6) - interval 30 day and name = {name};
commit
