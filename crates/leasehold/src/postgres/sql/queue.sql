-- A lock's living claims in order, with what people want to know.
select c.place, c.weight, c.capacity, c.ticket, c.holder, s.host, s.pid,
    coalesce(c.label, s.label),
    greatest(0, 1000 * extract(epoch from clock_timestamp() - c.since))::bigint,
    greatest(0, 1000 * extract(epoch from s.expires - clock_timestamp()))::bigint,
    c.session
from {schema}.claim c join {schema}.session s on s.id = c.session
where c.name = {name} and s.expires > clock_timestamp()
order by c.place
