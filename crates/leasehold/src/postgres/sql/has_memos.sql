-- What there is of memos in a schema: null if there is no such table, else
-- whether it is ours and this role may use it.
(
    select (
            select count(*) = 4 from pg_catalog.pg_attribute a
            where a.attrelid = t.oid and a.attname in ('name', 'token', 'edition', 'bytes')
        )
        and has_table_privilege(t.oid, 'select')
        and has_table_privilege(t.oid, 'insert')
        and has_table_privilege(t.oid, 'update')
        and (
            select count(*) = 2 from pg_catalog.pg_proc p
            where p.pronamespace = t.relnamespace and p.proname in ('memo_write', 'memo_read')
                and has_function_privilege(p.oid, 'execute')
        )
    from pg_catalog.pg_class t join pg_catalog.pg_namespace n on n.oid = t.relnamespace
    where n.nspname = $1 and t.relname = 'memo'
)
