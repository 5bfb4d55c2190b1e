-- Fetches the evictions that a session has not been told of. ?1 session.
update eviction set told = 1 where session = ?1 and told = 0
returning ticket, by, reason
