-- The next order, and when the lease ends that asks for it. ?1 session.
select since, (select expires from session where id = ?1)
from claim where name = '' and place = 0
