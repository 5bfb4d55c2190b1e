-- ?1 name.
select mark from stamp where name = ?1
