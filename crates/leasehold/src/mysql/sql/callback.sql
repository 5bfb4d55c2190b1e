{alone}
update {session} set epoch = epoch + 1 where id = {lease};
select 'epoch', s.epoch, {current}, {identity}, m.term
from {session} s join {meta} m where s.id = {lease};
