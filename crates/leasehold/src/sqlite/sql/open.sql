-- ?1 session, ?2 expires, ?3 host, ?4 pid, ?5 label, ?6 now.
insert into session (id, expires, host, pid, label, since)
values (?1, ?2, ?3, ?4, ?5, ?6)
