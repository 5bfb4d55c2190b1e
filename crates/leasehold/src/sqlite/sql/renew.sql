-- ?1 session, ?2 new end, ?3 now. An ended lease is never brought back.
update session set expires = ?2 where id = ?1 and expires > ?3
