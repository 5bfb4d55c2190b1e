-- Refuses where an answer would be wrong: on a standby, whose data is not of
-- now; in another isolation level, in which a transaction would see the queue as
-- it was before it had to wait; and inside a transaction that somebody left
-- open, which may never commit. What commits here is on disk before it is
-- answered, whatever role, database or server say.
create or replace function leasehold.prove() returns void
language plpgsql volatile as $$
begin
    if pg_is_in_recovery() then
        raise exception using errcode = '25006', message = 'the server is a standby';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = 'LH002', message = 'not read committed';
    end if;
    if now() <> statement_timestamp() then
        raise exception using errcode = 'LH003', message = 'inside an open transaction';
    end if;
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;

-- From here to the end of its transaction whoever calls it is alone with the
-- queue of this name. Other names may share the lock by chance and then wait for
-- each other. The server is met once by each of its processes, which all end with
-- it. This is in every request: written as conditions, it costs half of what the
-- same calls would.
create or replace function leasehold.take(p_name text) returns boolean
language plpgsql volatile as $$
begin
    if pg_is_in_recovery() or now() <> statement_timestamp()
        or current_setting('transaction_isolation') <> 'read committed'
        or current_setting('synchronous_commit') <> 'on'
    then
        perform leasehold.prove();
    end if;
    if pg_advisory_xact_lock(hashtextextended(p_name, 7809639172)) is null then
        return false;
    end if;
    if current_setting('leasehold_met.schema', true)
        is distinct from 'leasehold.token'::regclass::oid::text
    then
        perform leasehold.meet();
        perform set_config('leasehold_met.schema', 'leasehold.token'::regclass::oid::text, false);
    end if;
    return true;
end
$$;

-- The same for several names. Everybody takes them in the same order, and all of
-- them before the row of `meta`.
create or replace function leasehold.take_all(p_names text[]) returns void
language plpgsql volatile as $$
declare
    v_name text;
begin
    perform leasehold.prove();
    for v_name in
        select n from unnest(p_names) n order by hashtextextended(n, 7809639172)
    loop
        perform pg_advisory_xact_lock(hashtextextended(v_name, 7809639172));
    end loop;
    perform leasehold.meet();
end
$$;

-- Which server this is, and since which start: its timeline, which every
-- promotion changes, and when it was started. Nothing is read from disk.
create or replace function leasehold.server() returns text
language sql volatile as $$
    select left(pg_walfile_name(pg_current_wal_lsn()), 8) || ' '
        || (1000000 * extract(epoch from pg_postmaster_start_time()))::bigint
$$;

-- Says which server this is. The first to meet another one than before lifts
-- the counter far above whatever a failover may have forgotten, and lets every
-- lease that has not ended for good begin anew: its last renewal may be
-- forgotten, and this clock another one. Nothing is drawn and nobody is taken
-- for dead before this. Needs `prove`. It does read whole tables, also for functions
-- that must not.
create or replace function leasehold.meet() returns text
language plpgsql volatile set enable_seqscan = on as $$
declare
    v_server text := leasehold.server();
begin
    perform from leasehold.meta m where m.server = v_server;
    if not found then
        update leasehold.meta set server = v_server where server <> v_server;
        if found then
            perform setval('leasehold.token', greatest(
                nextval('leasehold.token') + (1::bigint << 32),
                (1000000 * extract(epoch from clock_timestamp()))::bigint));
            update leasehold.session
            set expires = clock_timestamp() + ttl * interval '1 millisecond'
            where expires > '-infinity';
        end if;
    end if;
    return v_server;
end
$$;

-- Ends a session whose time is over, for good, and says whether it is over. One
-- that somebody is at right now, maybe to renew it, is not; so nobody waits for
-- anybody here, and nothing can deadlock.
create or replace function leasehold.bury(p_session uuid) returns boolean
language plpgsql volatile as $$
begin
    perform from leasehold.session s
    where s.id = p_session and s.expires <= clock_timestamp()
    for update skip locked;
    if found then
        update leasehold.session set expires = '-infinity'
        where id = p_session and expires > '-infinity';
        return true;
    end if;
    return not exists (select from leasehold.session s where s.id = p_session);
end
$$;

-- Walks the queue from its head to the first claim that waits. Takes out the
-- dead and tells those who hold now and did not before `p_left_place`, with
-- `p_left_weight`, was taken out. A claim that a transaction is fenced by stays
-- in its place, dead or not. Says whether it took out anything. Needs `take`.
create or replace function leasehold.settle(
    p_name text, p_left_place bigint, p_left_weight bigint
) returns boolean language plpgsql volatile as $$
declare
    r record;
    v_before bigint := 0;
    v_used bigint := 0;
    v_is_left boolean := p_left_place is null;
    v_has_buried boolean := false;
begin
    for r in
        select c.place, c.ticket, c.session, c.weight, c.capacity, (
            select s.expires > clock_timestamp() from leasehold.session s where s.id = c.session
        ) as is_alive
        from leasehold.claim c where c.name = p_name order by c.place
    loop
        if not v_is_left and r.place > p_left_place then
            v_is_left := true;
            v_before := v_before + p_left_weight;
        end if;
        v_before := v_before + r.weight;
        if r.is_alive is not true and leasehold.bury(r.session)
            and leasehold.remove(p_name, r.place, r.ticket) is not null
        then
            v_has_buried := true;
            continue;
        end if;
        v_used := v_used + r.weight;
        exit when v_used > r.capacity;
        if v_before > r.capacity then
            perform leasehold.tell(r.session, r.ticket || ' ' || r.place);
        end if;
    end loop;
    return v_has_buried;
end
$$;

-- Deletes a claim unless a transaction is fenced by it. Answers its weight.
create or replace function leasehold.remove(
    p_name text, p_place bigint, p_ticket uuid
) returns bigint language plpgsql volatile as $$
declare
    v_weight bigint;
begin
    -- Mostly no transaction ever had this row, and then none has it now.
    delete from leasehold.claim c
    where c.name = p_name and c.place = p_place and c.ticket = p_ticket and c.xmax = '0'
    returning c.weight into v_weight;
    if found then
        return v_weight;
    end if;
    select c.weight into v_weight from leasehold.claim c
    where c.name = p_name and c.place = p_place and c.ticket = p_ticket
    for update skip locked;
    if found then
        delete from leasehold.claim c where c.name = p_name and c.place = p_place;
    end if;
    return v_weight;
end
$$;

-- Heard by the session alone, after the commit.
create or replace function leasehold.tell(p_session uuid, p_message text) returns void
language sql volatile as $$
    select pg_notify('leasehold_' || replace(p_session::text, '-', ''), p_message)
$$;

-- Where a claim stands, by reading only. A claim that is dead but still there
-- counts, so "held" never rests on ignoring one. `wake`: in how many
-- milliseconds the one who is in the way is over. `watch`: the claim that alone
-- keeps it out, if there is one.
create or replace function leasehold.look(
    p_name text, p_ticket uuid, p_place bigint,
    out answer text, out place bigint, out ahead bigint, out watch bigint, out wake bigint
) language plpgsql volatile set enable_seqscan = off as $$
declare
    r record;
    v_used bigint := 0;
    v_first timestamptz;
    v_weight bigint;
    v_is_mine boolean := false;
begin
    perform leasehold.prove();
    answer := 'gone';
    place := p_place;
    select c.weight into v_weight from leasehold.claim c join leasehold.session s on s.id = c.session
    where c.name = p_name and c.place = p_place and c.ticket = p_ticket
    and s.expires > clock_timestamp();
    if not found then
        return;
    end if;
    for r in
        select c.place, c.weight, c.capacity, coalesce((
            select s.expires from leasehold.session s where s.id = c.session
        ), '-infinity') as expires
        from leasehold.claim c where c.name = p_name and c.place <= p_place order by c.place
    loop
        v_used := v_used + r.weight;
        v_is_mine := r.place = p_place;
        if v_used > r.capacity then
            -- Nobody passes the first to wait: it looks after those who hold,
            -- and the others look after it.
            if not v_is_mine then
                v_first := r.expires;
            end if;
            exit;
        end if;
        if v_is_mine then
            answer := 'held';
            return;
        end if;
        v_first := least(v_first, r.expires);
    end loop;
    answer := 'waiting';
    select count(*), max(c.place) filter (where c.weight + v_weight > c.capacity)
    into ahead, watch
    from leasehold.claim c where c.name = p_name and c.place < p_place;
    wake := greatest(0, least(86400000, 1000 * extract(epoch from
        greatest(v_first, '2000-01-01') - clock_timestamp())))::bigint;
end
$$;
