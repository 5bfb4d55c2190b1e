-- ?1 name, ?2 boot, ?3 end by the boot clock, ?4 end by the wall clock.
insert or replace into memo_end (name, boot, ends, wall_ends) values (?1, ?2, ?3, ?4)
