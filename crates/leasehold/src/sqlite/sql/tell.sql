-- The evictions that a session has not been told of. ?1 session.
select ticket, by, reason from eviction where session = ?1 and told = 0
