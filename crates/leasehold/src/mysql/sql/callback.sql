{alone}
update {session} set epoch = epoch + 1 where id = {lease};
select 'epoch', epoch from {session} where id = {lease};
