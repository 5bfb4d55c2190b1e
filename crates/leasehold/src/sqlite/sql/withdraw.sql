-- ?1 name, ?2 ticket. Answers the claim that was there.
delete from claim where name = ?1 and ticket = ?2
returning place, weight, session, label
