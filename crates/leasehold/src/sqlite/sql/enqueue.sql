-- ?1 name, ?2 place, ?3 ticket, ?4 session, ?5 holder, ?6 capacity, ?7 weight,
-- ?8 label or null, ?9 now.
insert into claim (name, place, ticket, session, holder, capacity, weight, label, since)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
