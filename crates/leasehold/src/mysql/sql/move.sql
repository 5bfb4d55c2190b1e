-- Gives a claim a row of its own, so that a transaction can depend on it without
-- being in the way of those who come to wait.
set transaction isolation level read committed;
start transaction read write;
select place from {claim} where name = {name} and seat = 0 and ticket = {ticket} for update;
insert into {claim} (name, seat, place, ticket, session, holder, capacity, weight, label,
    since, drawn, queued, term)
select name, place, place, ticket, session, holder, capacity, weight, label, since, 0, 0, 0
from {claim} where name = {name} and seat = 0 and ticket = {ticket};
update {claim} set ticket = null, queued = 1
where name = {name} and seat = 0 and ticket = {ticket};
{stands};
commit
