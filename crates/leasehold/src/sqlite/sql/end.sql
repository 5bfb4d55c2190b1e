-- ?1 session. From here on its claims are dead.
delete from session where id = ?1
