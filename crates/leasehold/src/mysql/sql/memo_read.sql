-- The memo of a lock, null where there is none, the server's time, and whether it
-- is its term. What a replica says is not of now.
set transaction isolation level read committed;
start transaction read write;
select o.token, o.edition, hex(o.bytes), {clock}, {current}
from {meta} m left join {memo} o on o.name = {name}
    and (o.expires is null or o.expires > utc_timestamp(6));
{confirming}
commit
