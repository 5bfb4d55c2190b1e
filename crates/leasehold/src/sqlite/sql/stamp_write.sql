-- Marks a lock that has no writer, dead or not. ?1 name, ?2 mark.
insert or ignore into stamp (name, mark)
select ?1, ?2 where not exists (
    select 1 from claim where name = ?1 and weight >= capacity
)
