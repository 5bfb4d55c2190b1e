-- ?1 session. Removes its claims in all queues and answers them.
delete from claim where session = ?1
returning name, place, weight
