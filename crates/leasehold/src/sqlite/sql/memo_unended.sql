-- ?1 name, ?2 boot, ?3 boot clock, ?4 wall clock.
select m.token, m.edition, m.bytes from memo m left join memo_end e on e.name = m.name
where m.name = ?1 and case
    when e.name is null then 1
    when e.boot = ?2 then e.ends > ?3
    else e.wall_ends > ?4
end
