-- Whether there are stamps in a schema that this role may use.
exists (
    select from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname = $1 and p.proname = 'stamp_of' and has_function_privilege(p.oid, 'execute')
)
