-- ?1 name, ?2 place.
delete from claim where name = ?1 and place = ?2
