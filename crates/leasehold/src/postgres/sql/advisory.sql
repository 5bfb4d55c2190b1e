-- mode=session, layout version 1; docs/stores/postgres.md explains every field.
-- May be run again: it makes what is missing and leaves the rest.
create schema if not exists leasehold;

create table if not exists leasehold.meta (
    one boolean primary key default true check (one),
    version integer not null,
    server text not null,
    mode text not null
);

create sequence if not exists leasehold.token increment by 32;

create table if not exists leasehold.eviction (
    ticket uuid primary key,
    name text collate "C" not null,
    token bigint not null,
    host text not null,
    pid bigint not null,
    label text not null,
    by text not null,
    reason text not null,
    at timestamptz not null
);

create index if not exists eviction_name on leasehold.eviction (name, at);

-- What is in these is about connections, and no connection survives a crash.
-- The servers that were met: `meta` says the last one too, but a server that ends
-- all its processes because one crashed has the same name afterwards. It empties
-- this.
create unlogged table if not exists leasehold.met (server text primary key);

create unlogged table if not exists leasehold.line (
    line bigint primary key,
    pid integer not null,
    session uuid not null,
    is_main boolean not null,
    ttl bigint not null,
    host text not null,
    owner bigint not null,
    label text not null
);

create unlogged table if not exists leasehold.note (
    request uuid not null,
    pid integer not null,
    key bigint not null,
    name text collate "C" not null,
    ticket uuid not null,
    holder bigint not null,
    token bigint,
    label text,
    since timestamptz not null,
    written timestamptz not null default clock_timestamp(),
    primary key (request, pid, key)
);

-- The advisory lock of a name. The counter's number makes the keys of two
-- schemas differ. `advisory/claims.rs` knows it too.
create or replace function leasehold.key(p_name text) returns bigint
language sql stable as $$
    select hashtextextended(p_name collate "C", 'leasehold.token'::regclass::oid::bigint)
$$;

-- Which server this is, and since which start: its timeline, which every
-- promotion changes, and when it was started.
create or replace function leasehold.server() returns text
language sql volatile as $$
    select left(pg_walfile_name(pg_current_wal_lsn()), 8) || ' '
        || (1000000 * extract(epoch from pg_postmaster_start_time()))::bigint
$$;

-- Says which server this is. The first to meet another one than before, or the
-- same after it crashed, lifts the counter far above whatever may be forgotten: nobody
-- waits until a token that was drawn is on disk, so some are, and this counts from before
-- them. The lift itself has to be on disk before anybody draws.
-- Every connection does this before it can draw a token, and ends with its server.
create or replace function leasehold.meet() returns text
language plpgsql volatile as $$
declare
    v_server text := leasehold.server();
begin
    perform from leasehold.met m where m.server = v_server;
    if found then
        return v_server;
    end if;
    -- One after the other; the others then find that it is done.
    perform from leasehold.meta m for update;
    perform from leasehold.met m where m.server = v_server;
    if not found then
        update leasehold.meta set server = v_server;
        delete from leasehold.met;
        insert into leasehold.met (server) values (v_server);
        perform setval('leasehold.token', greatest(
            nextval('leasehold.token') + (1::bigint << 33),
            (1000000 * extract(epoch from clock_timestamp()))::bigint));
    end if;
    return v_server;
end
$$;

-- A setting that not every server has.
create or replace function leasehold.prefer(p_name text, p_value bigint) returns void
language plpgsql volatile as $$
begin
    perform set_config(p_name, p_value::text, false);
exception when others then
    null;
end
$$;

-- Makes this connection one that can hold locks. `p_line` is a random key that it
-- holds as long as it lives; that of the main connection stands for the lease.
create or replace function leasehold.enlist(
    p_line bigint, p_session uuid, p_is_main boolean, p_ttl bigint, p_host text,
    p_owner bigint, p_label text, out pid integer, out last bigint, out seed bigint
) language plpgsql volatile as $$
#variable_conflict use_column
begin
    if pg_is_in_recovery() then
        raise exception using errcode = '25006', message = 'the server is a standby';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = 'LH002', message = 'not read committed';
    end if;
    perform leasehold.meet();
    -- One that waits is not idle; the server can still find out that nobody is
    -- at the other end. Nothing here may end a connection before the ttl is over.
    perform leasehold.prefer('client_connection_check_interval', greatest(p_ttl / 3, 100));
    perform leasehold.prefer('tcp_user_timeout', p_ttl);
    perform leasehold.prefer('tcp_keepalives_idle', p_ttl / 1000 + 1);
    perform leasehold.prefer('tcp_keepalives_interval', p_ttl / 3000 + 1);
    perform leasehold.prefer('tcp_keepalives_count', 3);
    perform leasehold.prefer('transaction_timeout', 0);
    perform pg_advisory_lock(p_line);
    if p_is_main then
        perform leasehold.sweep();
    end if;
    pid := pg_backend_pid();
    insert into leasehold.line (line, pid, session, is_main, ttl, host, owner, label)
    values (p_line, pid, p_session, p_is_main, p_ttl, p_host, p_owner, p_label);
    last := s.last_value from leasehold.token s;
    seed := 'leasehold.token'::regclass::oid::bigint;
end
$$;

-- Every advisory lock of this database: (pid, key, is_held, since).
create or replace function leasehold.locks(
    out pid integer, out key bigint, out is_held boolean, out since timestamptz
) returns setof record language sql volatile as $$
    select l.pid, (l.classid::bigint << 32) | l.objid::bigint, l.granted, l.waitstart
    from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
$$;

-- Removes what is left of connections that have ended.
create or replace function leasehold.sweep() returns void
language plpgsql volatile as $$
begin
    delete from leasehold.line n
    where not exists (select from leasehold.locks() l where l.pid = n.pid and l.key = n.line);
    delete from leasehold.note where written < clock_timestamp() - interval '1 minute';
    delete from leasehold.eviction where at < clock_timestamp() - interval '30 days';
end
$$;

-- Takes a lock if it is free, and answers a token; null if it is not. The server
-- grants a lock twice to one connection: a name is not asked for again while it
-- is held there. And a lock belongs to a connection of the server, so it must be
-- the one that we know.
create or replace function leasehold.take(p_name text, p_pid integer) returns bigint
language plpgsql volatile as $$
begin
    if pg_backend_pid() <> p_pid then
        raise exception using errcode = 'LH004', message = 'another connection than before';
    end if;
    if pg_try_advisory_lock(leasehold.key(p_name)) then
        return nextval('leasehold.token');
    end if;
    return null;
end
$$;

-- Waits for a lock and answers a token, below zero if it had to wait; null if the
-- lease ended meanwhile, and then the next one has the lock. A condition that is
-- never true costs less than a statement.
create or replace function leasehold.wait_for(
    p_name text, p_pid integer, p_lease bigint
) returns bigint language plpgsql volatile as $$
declare
    v_is_free boolean;
begin
    if pg_backend_pid() <> p_pid then
        raise exception using errcode = 'LH004', message = 'another connection than before';
    end if;
    v_is_free := pg_try_advisory_lock(leasehold.key(p_name));
    if not v_is_free and pg_advisory_lock(leasehold.key(p_name)) is null then
        return null;
    end if;
    if pg_try_advisory_lock_shared(p_lease) then
        perform pg_advisory_unlock_shared(p_lease);
        perform pg_advisory_unlock(leasehold.key(p_name));
        return null;
    end if;
    return case when v_is_free then 1 else -1 end * nextval('leasehold.token');
end
$$;

-- Who has or wants a lock, or any lock if there is no name.
create or replace function leasehold.standing(
    p_name text, out pid integer, out key bigint, out is_held boolean, out since timestamptz,
    out line bigint, out session uuid, out ttl bigint, out host text, out owner bigint,
    out label text
) returns setof record language sql volatile as $$
    with k as materialized (select l.* from leasehold.locks() l),
    alive as materialized (
        select n.* from leasehold.line n join k on k.pid = n.pid and k.key = n.line
    )
    select k.pid, k.key, k.is_held, k.since, n.line, n.session, n.ttl, n.host, n.owner, n.label
    from k join alive n on n.pid = k.pid
    where (p_name is null or k.key = (select leasehold.key(p_name)))
    and not exists (select from alive other where other.line = k.key)
$$;

-- Heard by the session's main connection alone.
create or replace function leasehold.tell(p_session uuid, p_message text) returns text
language plpgsql volatile as $$
begin
    perform pg_notify('leasehold_' || replace(p_session::text, '-', ''), p_message);
    return p_message;
end
$$;

-- Asks those who have or want a lock to write down for this request what only
-- they know.
create or replace function leasehold.inquire(p_request uuid, p_name text) returns bigint
language sql volatile as $$
    select count(leasehold.tell(t.session, 'show ' || p_request || coalesce(' ' || p_name, '')))
    from (
        select distinct n.session from leasehold.locks() k join leasehold.line n on n.pid = k.pid
        where p_name is null or k.key = (select leasehold.key(p_name))
    ) t
$$;

-- Ends connections, each given by its process and its key, and answers when they
-- have ended, or after a while. Says how many have not.
create or replace function leasehold.finish(p_pids integer[], p_lines bigint[]) returns bigint
language plpgsql volatile as $$
begin
    -- All at once, then one after the other.
    perform pg_terminate_backend(t.pid)
    from unnest(p_pids, p_lines) as t (pid, line)
    where exists (select from leasehold.locks() l where l.pid = t.pid and l.key = t.line);
    perform pg_terminate_backend(t.pid, 2000)
    from unnest(p_pids, p_lines) as t (pid, line)
    where exists (select from leasehold.locks() l where l.pid = t.pid and l.key = t.line);
    return count(*)
    from unnest(p_pids, p_lines) as t (pid, line)
    where exists (select from leasehold.locks() l where l.pid = t.pid and l.key = t.line);
end
$$;

do $$
begin
    insert into leasehold.meta (version, server, mode) values (1, leasehold.server(), 'session')
    on conflict do nothing;
    if found then
        insert into leasehold.met (server) values (leasehold.server());
        perform setval('leasehold.token',
            (1000000 * extract(epoch from clock_timestamp()))::bigint);
    end if;
end
$$;
