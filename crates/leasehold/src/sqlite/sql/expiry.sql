-- ?1 session. Answers when its lease ends.
select expires from session where id = ?1
