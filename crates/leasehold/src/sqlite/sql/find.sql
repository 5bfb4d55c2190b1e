-- ?1 name, ?2 ticket.
select place, weight, session, label from claim where name = ?1 and ticket = ?2
