select max(greatest(token + 32, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))
    + if(server in ('', {server}), 0, 4294967296)) into @leasehold_place
from {stripe} where id = {number} for update;
insert into {claim} (name, place, ticket, session, holder, capacity, weight, label, since)
values ({name}, @leasehold_place, {ticket}, {lease}, {holder}, {capacity}, {weight}, {label},
    utc_timestamp(6));
update {stripe} set token = @leasehold_place, server = {server} where id = {number};
select @leasehold_place;
