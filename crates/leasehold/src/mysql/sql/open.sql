-- Starts a lease; again with the same id, the same one.
set transaction isolation level read committed;
start transaction read write;
insert ignore into {session} (id, expires, ttl, epoch, host, pid, label, since)
values ({lease}, utc_timestamp(6) + interval {ttl} microsecond, {ttl}, 0, {host}, {pid},
    {label}, utc_timestamp(6));
select epoch, {server} from {session} where id = {lease};
commit
