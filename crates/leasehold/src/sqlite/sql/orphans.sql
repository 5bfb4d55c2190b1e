-- The sessions that still have claims but no row of their own.
select distinct session from claim
where name <> '' and session not in (select id from session)
