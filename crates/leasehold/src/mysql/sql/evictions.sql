-- What was broken of late on a lock, newest first.
select token, hex(host), pid, hex(label), hex(evicted_by), hex(reason),
    timestampdiff(microsecond, '1970-01-01', at)
from {eviction} where name = {name} order by at desc, token desc limit 20
