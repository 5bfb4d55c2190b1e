insert into {claim} (name, seat, place, holder, capacity, weight, since, drawn, queued, server)
values ({name}, 0, 0, 0, 0, 0, utc_timestamp(6),
    (select greatest(m.floor + 32, {clock}) + if(m.server in ('', {server}), 0, 4294967296)
     from {meta} m), 1, {server})
on duplicate key update
    drawn = greatest(place + 32, drawn + 32, {clock})
        + if(server in ('', {server}), 0, 4294967296),
    queued = 1, server = {server};
