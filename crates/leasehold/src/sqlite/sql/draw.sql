-- The next order, and when the lease ends that asks for it. ?1 session.
select next, (select expires from session where id = ?1) from meta where one = 1
