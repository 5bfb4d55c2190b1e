update {claim} set
    place = last_insert_id(drawn), ticket = {ticket}, session = {lease}, holder = {holder},
    capacity = {capacity}, weight = {weight}, label = {label}, since = utc_timestamp(6),
    queued = 0
where name = {name} and seat = 0 and ticket is null;
select if(row_count() = 1, last_insert_id(), null);
