-- ?1 boot, ?2 boot clock, ?3 wall clock. A few names whose memos have ended, so
-- that no write takes long.
select name from (select name from memo_end where boot = ?1 and ends <= ?2 limit 20)
union all
select name from (select name from memo_end where boot <> ?1 and wall_ends <= ?3 limit 20)
