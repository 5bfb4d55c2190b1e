-- Gives back and takes first seats, of names that are all different, as one commit.
-- A row that somebody else has just now is passed over: so this waits for no queue, and
-- nobody waits for this in a circle. What is taken is taken as in `take.sql`. Answers
-- which rows were changed.
insert into {claim} (name, seat, place, ticket, session, holder, capacity, weight, label,
    since, drawn, queued, term)
with v (name, was, ticket, session, epoch, server, term, holder, capacity, weight, label) as (
    values {rows}
)
select c.name, 0,
    if(v.was is null, greatest(c.place + 32, c.drawn + 32, {clock}), c.place), v.ticket,
    if(v.was is null, v.session, c.session), if(v.was is null, v.holder, c.holder),
    if(v.was is null, v.capacity, c.capacity), if(v.was is null, v.weight, c.weight),
    if(v.was is null, v.label, c.label), if(v.was is null, utc_timestamp(6), c.since), 0, 0, 0
from v straight_join {claim} c force index (primary) on c.name = v.name and c.seat = 0 and c.ticket <=> v.was
where v.was is not null
or (
    c.queued = 0 and c.term = v.term and {identity} = v.server and {writable}
    and exists (select 1 from {meta} m where m.server = v.server and m.term = v.term)
    and v.epoch = (
        select s.epoch from {session} s
        where s.id = coalesce(c.ticket, v.session) and s.expires > utc_timestamp(6)
        lock in share mode
    )
)
for update skip locked
on duplicate key update place = values(place), ticket = values(ticket),
    session = values(session), holder = values(holder), capacity = values(capacity),
    weight = values(weight), label = values(label), since = values(since)
returning hex(name), place
