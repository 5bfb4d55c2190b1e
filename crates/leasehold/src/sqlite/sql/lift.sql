-- Moves the counter of orders on. ?1 by at least this much, ?2 to at least this.
update claim set since = max(since + ?1, ?2) where name = '' and place = 0
