-- What was broken of late on a lock, newest first. ?1 name.
select token, host, pid, label, by, reason, at
from eviction where name = ?1
order by at desc, token desc limit 20
