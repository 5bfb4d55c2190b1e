insert into {claim} (name, seat, place, holder, capacity, weight, since, drawn, queued, term)
select {name}, 0, 0, 0, 0, 0, utc_timestamp(6), n.first_order, 1, n.now_term
from (
    select greatest(m.floor + 32, {clock}) as first_order, m.term as now_term
    from {meta} m where {writable}
) n
on duplicate key update
    drawn = greatest(place + 32, drawn + 32, {clock})
        + greatest(values(term) - term, 0) * 4294967296,
    queued = 1, term = greatest(term, values(term));
