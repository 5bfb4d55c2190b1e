-- Takes a lock that nobody has or waits for: one row, its own, which says so. The
-- order is above the last one, and never below the clock, so that what a crash forgot
-- does not come twice. The row was used in this term before, and the term is this
-- server's; one that begins meanwhile raises the session's epoch. The session's row is
-- locked after the lock's own, which may have to be waited for: a renewal must not
-- wait behind that. So it is asked for as one value that depends on the lock's row,
-- which no optimizer reads ahead. Values: ticket, lease, holder, capacity, weight, label;
-- name, term; server; server, term; epoch, lease.
update {claim} set
    place = last_insert_id(greatest(place + 32, drawn + 32, {clock})),
    ticket = {value}, session = {value}, holder = {value},
    capacity = {value}, weight = {value}, label = {value}, since = utc_timestamp(6)
where name = {value} and seat = 0 and ticket is null and queued = 0 and term = {value}
and {identity} = {value} and {writable}
and exists (select 1 from {meta} m where m.server = {value} and m.term = {value})
and {value} = (
    select s.epoch from {session} s
    where s.id = coalesce({claim}.ticket, {value})
    and s.expires > utc_timestamp(6) and not {is_loose}
    lock in share mode
)
