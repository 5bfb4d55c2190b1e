-- The names that have living claims and start with a prefix.
select distinct c.name
from {schema}.claim c join {schema}.session s on s.id = c.session
where c.name >= {prefix} and starts_with(c.name, {prefix}) and s.expires > clock_timestamp()
