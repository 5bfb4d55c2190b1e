-- A lock's living claims in order, with what people want to know.
select c.place, c.weight, c.capacity, hex(c.ticket), c.holder, hex(s.host), s.pid,
    hex(coalesce(c.label, s.label)),
    greatest(0, timestampdiff(microsecond, c.since, utc_timestamp(6))),
    greatest(0, timestampdiff(microsecond, utc_timestamp(6), s.expires)),
    hex(c.session)
from {claim} c join {session} s on s.id = c.session
where c.name = {name} and c.ticket is not null and s.expires > utc_timestamp(6)
and not {is_loose}
order by c.place
