-- A lock's claims in order, with what people want to know. ?1 name.
select c.place, c.weight, c.capacity, c.ticket, c.session, s.expires,
    c.holder, c.since, s.host, s.pid, coalesce(c.label, s.label)
from claim c join session s on s.id = c.session
where c.name = ?1
order by c.place
