-- Names from ?1 on with the sessions that have claims there. ?2 now.
select distinct c.name, c.session
from claim c join session s on s.id = c.session
where c.name >= ?1 and s.expires > ?2
order by c.name
