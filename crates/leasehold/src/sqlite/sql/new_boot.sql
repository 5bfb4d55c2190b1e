-- After a reboot every lock is free.
delete from claim;
delete from session;
