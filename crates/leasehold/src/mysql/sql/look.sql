select c.place, c.weight, c.capacity, hex(c.ticket), hex(c.session),
    greatest(0, coalesce(timestampdiff(microsecond, utc_timestamp(6), s.expires), 0))
from {claim} c left join {session} s on s.id = c.session
where c.name = {name} order by c.place
