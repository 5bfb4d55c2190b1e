-- When a lease ends. ?1 session.
select expires from session where id = ?1
