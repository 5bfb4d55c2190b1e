-- Keeps a lease unless it is over, and answers which claims it has.
set transaction isolation level read committed;
start transaction read write;
update {session} set expires = utc_timestamp(6) + interval {ttl} microsecond, ttl = {ttl}
where id = {lease} and expires > utc_timestamp(6) and {writable};
select s.expires > utc_timestamp(6) and {is_tied}, {server}, {current}, m.term, {writable}
from {session} s join {meta} m where s.id = {lease};
select hex(name), place, hex(ticket) from {claim} where session = {lease} and ticket is not null;
commit
