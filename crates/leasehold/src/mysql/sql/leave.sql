-- Takes a claim out, wherever it is. One that a transaction is fenced by fails
-- at once; it is never in the first seat. Its seat is read first, because to look for
-- it with locks would be to lock the others, and those may be fenced.
set transaction isolation level read committed;
start transaction read write;
{callback}
select place from {claim} where name = {name} and seat = 0 and ticket = {ticket} for update;
set @leasehold_seat = null;
select seat into @leasehold_seat from {claim}
where name = {name} and seat > 0 and ticket = {ticket};
select place from {claim} where name = {name} and seat = @leasehold_seat and ticket = {ticket}
for update nowait;
update {claim} set ticket = null where name = {name} and seat = 0 and ticket = {ticket};
delete from {claim} where name = {name} and seat = @leasehold_seat and ticket = {ticket};
commit
