-- ?1 name, ?2 token, ?3 edition.
delete from memo where name = ?1 and (token <> ?2 or edition < ?3)
