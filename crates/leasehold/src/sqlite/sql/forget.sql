-- Keeps evictions few. Those that a living session has yet to hear of stay.
-- ?1 wall time in ms before which they are old, ?2 how many to keep.
delete from eviction
where (told = 1 or session not in (select id from session))
and (at < ?1 or (session, ticket) not in (
    select session, ticket from eviction order by at desc limit ?2))
