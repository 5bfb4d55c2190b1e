-- What was broken of late on a lock, newest first.
select token, host, pid, label, by, reason, (1000 * extract(epoch from at))::bigint
from {schema}.eviction where name = {name} order by at desc, token desc limit 20
