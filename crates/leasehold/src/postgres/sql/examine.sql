-- What matters for locks: release, standby, fsync, synchronous_commit, encoding,
-- asynchronous standbys, and the seconds that the oldest transaction is open.
select current_setting('server_version'), pg_is_in_recovery(), current_setting('fsync'),
    current_setting('synchronous_commit'), current_setting('server_encoding'),
    exists (select from pg_stat_replication where sync_state = 'async')
    and current_setting('synchronous_standby_names') = '',
    (select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::bigint
     from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid())
