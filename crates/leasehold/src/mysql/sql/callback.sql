select id into @leasehold_id from {stripe} where id = {number} for update;
update {session} set epoch = epoch + 1 where id = {lease};
select 'epoch', epoch from {session} where id = {lease};
