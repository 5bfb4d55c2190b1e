-- A lock's claims in order, each with the end of its session (null: none).
-- ?1 name, ?2 last place to look at.
select c.place, c.weight, c.capacity, c.ticket, c.session, s.expires
from claim c left join session s on s.id = c.session
where c.name = ?1 and c.place <= ?2
order by c.place
