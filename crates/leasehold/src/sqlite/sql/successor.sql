-- The claim that stands right behind a place. ?1 name, ?2 place.
select c.place, c.weight, c.capacity, c.ticket, c.session, s.expires
from claim c left join session s on s.id = c.session
where c.name = ?1 and c.place > ?2
order by c.place limit 1
