-- ?1 session. Within the transaction that fetched them.
update eviction set told = 1 where session = ?1 and told = 0
