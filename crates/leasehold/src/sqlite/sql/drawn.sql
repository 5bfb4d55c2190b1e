-- Moves on by the tokens of a grant. ?1 the order that comes next.
update meta set next = ?1 where one = 1
