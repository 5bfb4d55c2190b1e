-- Two claims of a lock, if they are there, each with the end of its session, and
-- how many stand before the second. ?1 name, ?2 and ?3 places in order.
select c.place, c.weight, c.capacity, c.ticket, c.session, s.expires,
    (select count(*) from claim where name = ?1 and place < ?3)
from claim c left join session s on s.id = c.session
where c.name = ?1 and c.place in (?2, ?3)
order by c.place
