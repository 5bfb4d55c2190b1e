-- Takes a lock that nobody has or waits for: one row, its own, which says so. The
-- order is above the last one, far above if that is of an earlier term, and never
-- below the clock, so that what a crash forgot does not come twice. The session's
-- row is locked after the lock's own, which may have to be waited for: a renewal
-- must not wait behind that.
update {claim} set
    place = last_insert_id(greatest(place + 32, drawn + 32, {clock})
        + greatest((select m.term from {meta} m) - term, 0) * 4294967296),
    term = greatest(term, (select m.term from {meta} m)),
    ticket = {ticket}, session = {lease}, holder = {holder},
    capacity = {capacity}, weight = {weight}, label = {label}, since = utc_timestamp(6)
where name = {name} and seat = 0 and ticket is null and queued = 0
and exists (select 1 from {meta} m where {current})
and exists (
    select 1 from {session} s
    where s.id = coalesce({claim}.ticket, {lease}) and s.epoch = {epoch}
    and s.expires > utc_timestamp(6) and not {is_loose}
    lock in share mode
)
