-- Starts a lease of `p_ttl` milliseconds; again with the same id, the same one.
create or replace function leasehold.open(
    p_session uuid, p_ttl bigint, p_host text, p_pid bigint, p_label text,
    out epoch bigint, out server text
) language plpgsql volatile as $$
#variable_conflict use_column
begin
    perform leasehold.prove();
    server := leasehold.meet();
    perform leasehold.sweep();
    insert into leasehold.session as s (id, expires, ttl, host, pid, label, since)
    values (p_session, clock_timestamp() + p_ttl * interval '1 millisecond', p_ttl, p_host,
        p_pid, p_label, clock_timestamp())
    on conflict (id) do nothing;
    select s.epoch into epoch from leasehold.session s where s.id = p_session;
    perform leasehold.warm_up(E'\n' || p_session, p_session, epoch);
end
$$;

-- Takes a lock that nobody can name, waits for it too, and gives all back: so the
-- server has read the functions before anybody waits for them.
create or replace function leasehold.warm_up(
    p_name text, p_session uuid, p_epoch bigint
) returns void language plpgsql volatile as $$
declare
    v_other uuid := md5(p_session::text);
begin
    perform leasehold.enqueue(p_name, p_session, p_session, p_epoch, 0, 1, 1, false, null);
    perform leasehold.enqueue(p_name, v_other, p_session, p_epoch, 0, 1, 1, true, null);
    perform leasehold.withdraw(p_name, null, v_other, null);
    perform leasehold.withdraw(p_name, null, p_session, null);
end
$$;

-- Keeps a lease for another `p_ttl` milliseconds, unless it is over, and says
-- which of these claims are not there: their numbers, from 1. `server`: on
-- which server.
create or replace function leasehold.renew(
    p_session uuid, p_ttl bigint, p_names text[], p_places bigint[], p_tickets uuid[],
    out is_alive boolean, out server text, out missing bigint[]
) language plpgsql volatile as $$
begin
    perform leasehold.prove();
    server := leasehold.meet();
    update leasehold.session
    set expires = clock_timestamp() + p_ttl * interval '1 millisecond', ttl = p_ttl
    where id = p_session and expires > clock_timestamp();
    is_alive := found;
    select array_agg(t.number) into missing
    from unnest(p_names, p_places, p_tickets) with ordinality
        as t (name, place, ticket, number)
    where not exists (
        select from leasehold.claim c
        where c.name = t.name and c.place = t.place and c.ticket = t.ticket
    );
end
$$;

-- Ends a lease. From here on its claims are dead, and nothing brings it back.
-- The row goes when there are no claims left, so that the sweep finds them.
create or replace function leasehold.close(p_session uuid, p_has_claims boolean) returns void
language plpgsql volatile as $$
begin
    perform leasehold.prove();
    if p_has_claims then
        update leasehold.session set expires = '-infinity' where id = p_session;
    else
        delete from leasehold.session where id = p_session;
    end if;
end
$$;

-- Takes several claims out, as `withdraw` does. Answers how many are left
-- because a transaction is fenced by them.
create or replace function leasehold.leave(
    p_names text[], p_tickets uuid[], out fenced bigint
) language plpgsql volatile as $$
declare
    r record;
begin
    perform leasehold.take_all(p_names);
    fenced := 0;
    for r in
        select w.answer from unnest(p_names, p_tickets) as t (name, ticket),
            leasehold.withdraw(t.name, null, t.ticket, null) w
    loop
        if r.answer = 'fenced' then
            fenced := fenced + 1;
        end if;
    end loop;
end
$$;

-- Removes what is long dead, a little at a time, and old notes.
create or replace function leasehold.sweep() returns void
language plpgsql volatile as $$
declare
    v_old timestamptz := clock_timestamp() - interval '1 minute';
    r record;
begin
    perform from leasehold.session s where s.expires < v_old limit 1;
    if not found then
        return;
    end if;
    for r in
        select distinct c.name from leasehold.claim c
        left join leasehold.session s on s.id = c.session
        where s.id is null or s.expires < v_old limit 64
    loop
        if pg_try_advisory_xact_lock(hashtextextended(r.name, 7809639172)) then
            perform leasehold.remove(r.name, c.place, c.ticket) from leasehold.claim c
            where c.name = r.name and leasehold.bury(c.session);
            perform leasehold.settle(r.name, 0, 9223372036854775807 / 2);
        end if;
    end loop;
    delete from leasehold.session where id in (
        select s.id from leasehold.session s
        where s.expires < v_old
        and not exists (select from leasehold.claim c where c.session = s.id)
        for update skip locked
    );
    delete from leasehold.eviction where at < clock_timestamp() - interval '30 days';
end
$$;
