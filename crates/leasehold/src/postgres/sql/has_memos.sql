-- What there is of memos in a schema: null if there is no such table, or one of
-- ours from before memos could end; else whether it is ours and this role may use
-- it.
(
    select f.columns = 5
        and has_table_privilege(t.oid, 'select')
        and has_table_privilege(t.oid, 'insert')
        and has_table_privilege(t.oid, 'update')
        and has_table_privilege(t.oid, 'delete')
        and (
            select count(*) = 2 from pg_catalog.pg_proc p
            where p.pronamespace = t.relnamespace and p.proname in ('memo_write', 'memo_read')
                and has_function_privilege(p.oid, 'execute')
        )
    from pg_catalog.pg_class t join pg_catalog.pg_namespace n on n.oid = t.relnamespace,
    lateral (
        select count(*) as columns, count(*) filter (where a.attname = 'expires') as ends
        from pg_catalog.pg_attribute a
        where a.attrelid = t.oid
            and a.attname in ('name', 'token', 'edition', 'bytes', 'expires')
    ) f
    where n.nspname = $1 and t.relname = 'memo' and not (f.columns = 4 and f.ends = 0)
)
