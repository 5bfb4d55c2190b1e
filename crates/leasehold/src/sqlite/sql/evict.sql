-- Records who broke a claim. ?1 session, ?2 ticket, ?3 name, ?4 token, ?5 by,
-- ?6 reason, ?7 wall time in ms, ?8 the claim's own label or null.
insert or replace into eviction
    (session, ticket, name, token, host, pid, label, by, reason, at)
select ?1, ?2, ?3, ?4, coalesce(s.host, ''), coalesce(s.pid, 0),
    coalesce(?8, s.label, ''), ?5, ?6, ?7
from (select 1) left join session s on s.id = ?1
