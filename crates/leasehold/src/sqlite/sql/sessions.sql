-- All sessions and when their leases end.
select id, expires from session
