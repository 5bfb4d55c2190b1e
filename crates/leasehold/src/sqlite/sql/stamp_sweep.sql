-- Removes some marks of locks that nobody uses. ?1 the first mark that is not old.
delete from stamp where name in (
    select s.name from stamp s
    where s.mark < ?1 and not exists (select 1 from claim c where c.name = s.name)
    limit 400
)
