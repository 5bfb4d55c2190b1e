-- Takes a lock that nobody has or waits for: one row, its own, which says so. The
-- order is above the last one, far above if another server drew that, and never
-- below the clock, so that what a crash forgot does not come twice.
update {claim} set
    place = last_insert_id(greatest(place + 32, drawn + 32, {clock})
        + if(server in ('', {server}), 0, 4294967296)),
    server = {server}, ticket = {ticket}, session = {lease}, holder = {holder},
    capacity = {capacity}, weight = {weight}, label = {label}, since = utc_timestamp(6)
where name = {name} and seat = 0 and ticket is null and queued = 0
and exists (
    select 1 from {session} s
    where s.id = {lease} and s.epoch = {epoch} and s.expires > utc_timestamp(6)
    lock in share mode
)
