-- Takes a claim out. One that a transaction is fenced by fails at once.
set transaction isolation level read committed;
start transaction read write;
{callback}
select place from {claim} where name = {name} and {which} for update nowait;
delete from {claim} where name = {name} and {which};
commit
