-- Moves on by the tokens of a grant. ?1 the order that comes next.
update claim set since = ?1 where name = '' and place = 0
