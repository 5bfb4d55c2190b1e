-- ?1 name, ?2 token, ?3 edition, ?4 bytes. A request that comes late does not
-- bring back an older edition of its own hold. What is removed stays, without
-- bytes, so that its edition does.
insert into memo (name, token, edition, bytes) values (?1, ?2, ?3, ?4)
on conflict (name) do update
set token = excluded.token, edition = excluded.edition, bytes = excluded.bytes
where memo.token <> excluded.token or memo.edition < excluded.edition
