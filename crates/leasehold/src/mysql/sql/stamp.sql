-- The last orders that were drawn on a lock, null if it was never used, how many
-- writers it has, dead or not, which term it is and whether this server's; and since
-- when it is up. What a replica says is not of now.
set transaction isolation level read committed;
start transaction read write;
select c.place, c.drawn, (
    select count(*) from {claim} w
    where w.name = {name} and w.ticket is not null and w.weight >= w.capacity
), m.term, {current}, unix_timestamp()
from {meta} m left join {claim} c on c.name = {name} and c.seat = 0;
{confirming}
commit;
show global status like 'Uptime'
