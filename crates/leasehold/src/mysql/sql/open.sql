-- Starts a lease; again with the same id, the same one. A session that is tied to
-- this connection has a lock of the server's that ends with it.
{tie}set transaction isolation level read committed;
start transaction read write;
insert ignore into {session} (id, expires, ttl, epoch, tied, host, pid, label, since)
values ({lease}, utc_timestamp(6) + interval {ttl} microsecond, {ttl}, 0, {tied}, {host},
    {pid}, {label}, utc_timestamp(6));
select s.epoch, {server}, {is_tied}, connection_id(), {current}, m.term
from {session} s join {meta} m where s.id = {lease};
commit
