-- Takes a claim out, wherever it is. One that a transaction is fenced by fails
-- at once; it is never in the first seat.
set transaction isolation level read committed;
start transaction read write;
{callback}
select place from {claim} where name = {name} and seat = 0 and ticket = {ticket} for update;
select place from {claim} where name = {name} and seat > 0 and ticket = {ticket}
for update nowait;
update {claim} set ticket = null where name = {name} and seat = 0 and ticket = {ticket};
delete from {claim} where name = {name} and seat > 0 and ticket = {ticket};
commit
