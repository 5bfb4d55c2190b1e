-- The names that have living claims and start with a prefix.
select distinct hex(c.name)
from {claim} c join {session} s on s.id = c.session
where c.ticket is not null and c.name >= {prefix}
and left(c.name, {length}) = {prefix} and s.expires > utc_timestamp(6) and not {is_loose}
