-- Who has or wants a lock, with what was written down for this request: holders
-- first, then those who wait, in order.
select s.pid, s.line, s.is_held, n.ticket, n.holder, n.token, s.host, s.owner,
    coalesce(n.label, s.label), s.session,
    greatest(0, 1000 * extract(epoch from clock_timestamp()
        - coalesce(n.since, s.since, clock_timestamp())))::bigint,
    greatest(0, s.ttl - coalesce((
        select (1000 * extract(epoch from clock_timestamp() - a.state_change))::bigint
        from pg_stat_activity a where a.pid = s.pid and a.state = 'idle'
    ), 0))::bigint
from {schema}.standing({name}) s
left join {schema}.note n on n.request = {request} and n.pid = s.pid and n.key = s.key
order by not s.is_held, s.since nulls last, s.pid
