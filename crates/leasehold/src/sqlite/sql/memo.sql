-- ?1 name.
select token, edition, bytes from memo where name = ?1
