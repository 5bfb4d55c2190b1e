select c.place, c.weight, c.capacity, hex(c.ticket), hex(c.session),
    if({is_loose}, 0,
        greatest(0, coalesce(timestampdiff(microsecond, utc_timestamp(6), s.expires), 0))), c.seat
from {claim} c left join {session} s on s.id = c.session
where c.name = {name} and c.ticket is not null order by c.place
