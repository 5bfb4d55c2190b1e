-- Puts a claim at the end of its queue, once however often it is asked for.
-- `answer`: held, waiting, busy, gone (the lease is), late (`number`: the
-- session's epoch), conflict (`number`: the capacity in use).
-- Here and in what else passes through a queue the table is never read as a whole: a
-- plan from when it was small would pass over all that died in it since, while an index
-- forgets what was found dead.
create or replace function leasehold.enqueue(
    p_name text, p_ticket uuid, p_session uuid, p_epoch bigint, p_holder bigint,
    p_capacity bigint, p_weight bigint, p_waits boolean, p_label text,
    out answer text, out place bigint, out ahead bigint, out watch bigint, out wake bigint,
    out number bigint
) language plpgsql volatile set enable_seqscan = off as $$
declare
    v_is_alive boolean;
    v_used bigint;
    v_other bigint;
    v_mine bigint;
    v_is_alone boolean;
begin
    if not p_waits then
        perform leasehold.prove();
        if leasehold.is_busy(p_name, p_ticket, p_capacity, p_weight) then
            answer := 'busy';
            return;
        end if;
    end if;
    v_is_alone := leasehold.take(p_name);
    -- Mostly nobody else is there, and then one statement is all. What it does not
    -- find is looked into below.
    insert into leasehold.claim as c
        (name, place, ticket, session, holder, capacity, weight, label, since)
    select p_name, nextval('leasehold.token'), p_ticket, p_session, p_holder, p_capacity,
        p_weight, p_label, clock_timestamp()
    from leasehold.session s
    where s.id = p_session and s.epoch = p_epoch and s.expires > clock_timestamp()
    and p_weight <= p_capacity
    and not exists (select from leasehold.claim o where o.name = p_name)
    returning c.place into place;
    if found then
        answer := 'held';
        return;
    end if;
    for v_round in 1..2 loop
        select s.expires > clock_timestamp(), s.epoch, q.used, q.other, q.mine
        into v_is_alive, number, v_used, v_other, v_mine
        from leasehold.session s, (
            select coalesce(sum(c.weight), 0) as used,
                max(c.capacity) filter (where c.capacity <> p_capacity) as other,
                max(c.place) filter (where c.ticket = p_ticket) as mine
            from leasehold.claim c where c.name = p_name
        ) q
        where s.id = p_session;
        if v_is_alive is not true then
            answer := 'gone';
            return;
        end if;
        -- Somebody called back all requests that were on their way.
        if number <> p_epoch then
            answer := 'late';
            return;
        end if;
        exit when v_mine is not null
            or (v_other is null and v_used + p_weight <= p_capacity)
            or not leasehold.settle(p_name, null, null);
    end loop;
    if v_mine is null then
        if v_other is not null then
            answer := 'conflict';
            number := v_other;
            return;
        end if;
        if v_used + p_weight > p_capacity and not p_waits then
            answer := 'busy';
            return;
        end if;
        v_mine := nextval('leasehold.token');
        insert into leasehold.claim
            (name, place, ticket, session, holder, capacity, weight, label, since)
        values (p_name, v_mine, p_ticket, p_session, p_holder, p_capacity, p_weight,
            p_label, clock_timestamp());
        if v_used + p_weight <= p_capacity then
            answer := 'held';
            place := v_mine;
            return;
        end if;
    end if;
    select l.answer, l.place, l.ahead, l.watch, l.wake into answer, place, ahead, watch, wake
    from leasehold.look(p_name, p_ticket, v_mine) l;
end
$$;

-- Whether a claim that does not wait has no chance, found out by reading only.
create or replace function leasehold.is_busy(
    p_name text, p_ticket uuid, p_capacity bigint, p_weight bigint
) returns boolean language sql volatile as $$
    select coalesce(sum(c.weight), 0) + p_weight > p_capacity
        and bool_and(c.ticket <> p_ticket and c.capacity = p_capacity and coalesce((
            select s.expires > clock_timestamp() from leasehold.session s where s.id = c.session
        ), false))
    from leasehold.claim c where c.name = p_name
$$;

-- All of these claims, each of its own lock, or none. Answers their places;
-- null if one is not free, and then nothing was written.
create or replace function leasehold.enqueue_all(
    p_names text[], p_tickets uuid[], p_session uuid, p_epoch bigint, p_holders bigint[],
    p_capacities bigint[], p_weights bigint[], p_labels text[],
    out answer text, out places bigint[], out number bigint
) language plpgsql volatile as $$
declare
    r record;
    v_one record;
    v_is_alive boolean;
begin
    answer := 'busy';
    perform leasehold.take_all(p_names);
    select s.expires > clock_timestamp(), s.epoch into v_is_alive, number
    from leasehold.session s where s.id = p_session;
    if v_is_alive is not true then
        answer := 'gone';
        return;
    end if;
    if number <> p_epoch then
        answer := 'late';
        return;
    end if;
    for r in
        select * from unnest(p_names, p_tickets, p_capacities, p_weights)
            as t (name, ticket, capacity, weight)
    loop
        if leasehold.is_busy(r.name, r.ticket, r.capacity, r.weight) then
            return;
        end if;
    end loop;
    begin
        for r in
            select * from unnest(p_names, p_tickets, p_holders, p_capacities, p_weights, p_labels)
                as t (name, ticket, holder, capacity, weight, label)
        loop
            select * into v_one from leasehold.enqueue(r.name, r.ticket, p_session, p_epoch,
                r.holder, r.capacity, r.weight, false, r.label);
            if v_one.answer <> 'held' then
                raise exception using errcode = 'LH001', message = v_one.answer;
            end if;
            places := places || v_one.place;
        end loop;
        answer := 'held';
    exception when sqlstate 'LH001' then
        -- What was put so far is undone.
        answer := sqlerrm;
        places := null;
    end;
end
$$;

-- Looks, and first takes out what is dead.
create or replace function leasehold.take_over(
    p_name text, p_ticket uuid, p_place bigint,
    out answer text, out place bigint, out ahead bigint, out watch bigint, out wake bigint
) language plpgsql volatile set enable_seqscan = off as $$
begin
    perform leasehold.take(p_name);
    perform leasehold.settle(p_name, null, null);
    select l.answer, l.place, l.ahead, l.watch, l.wake into answer, place, ahead, watch, wake
    from leasehold.look(p_name, p_ticket, p_place) l;
end
$$;

-- Takes claims out of their queues and tells those they stood in the way of.
-- Where `p_place` is null the claim is looked for. `p_callback`, a session,
-- calls back all its requests that are still on their way. `answer`: removed,
-- absent, fenced (nothing was done); `number`: the session's epoch.
create or replace function leasehold.withdraw(
    p_name text, p_place bigint, p_ticket uuid, p_callback uuid,
    out answer text, out number bigint
) language plpgsql volatile set enable_seqscan = off as $$
declare
    v_place bigint := p_place;
    v_weight bigint;
    v_is_alone boolean;
    v_has_others boolean;
begin
    answer := 'absent';
    v_is_alone := leasehold.take(p_name);
    if p_callback is not null then
        update leasehold.session set epoch = epoch + 1
        where id = p_callback returning epoch into number;
    end if;
    if v_place is null then
        select c.place into v_place from leasehold.claim c
        where c.name = p_name and c.ticket = p_ticket;
    end if;
    if v_place is null then
        return;
    end if;
    -- As in `remove`, and whether there is anybody else in the same statement.
    delete from leasehold.claim c
    where c.name = p_name and c.place = v_place and c.ticket = p_ticket and c.xmax = '0'
    returning c.weight, exists (
        select from leasehold.claim o where o.name = p_name and o.place <> v_place
    ) into v_weight, v_has_others;
    if not found then
        v_weight := leasehold.remove(p_name, v_place, p_ticket);
        v_has_others := true;
    end if;
    if v_weight is not null then
        answer := 'removed';
        if v_has_others then
            perform leasehold.settle(p_name, v_place, v_weight);
        end if;
        return;
    end if;
    perform from leasehold.claim c
    where c.name = p_name and c.place = v_place and c.ticket = p_ticket;
    if found then
        answer := 'fenced';
    end if;
end
$$;

-- Breaks a claim: takes it out, notes who did it, and tells its session.
create or replace function leasehold.evict(
    p_name text, p_ticket uuid, p_by text, p_reason text, out answer text
) language plpgsql volatile as $$
declare
    r record;
begin
    perform leasehold.take(p_name);
    select c.place, c.session, coalesce(c.label, s.label, '') as label,
        coalesce(s.host, '') as host, coalesce(s.pid, 0) as pid
    into r
    from leasehold.claim c left join leasehold.session s on s.id = c.session
    where c.name = p_name and c.ticket = p_ticket;
    if not found then
        answer := 'absent';
        return;
    end if;
    select w.answer into answer from leasehold.withdraw(p_name, r.place, p_ticket, null) w;
    if answer = 'removed' then
        insert into leasehold.eviction (ticket, name, token, host, pid, label, by, reason, at)
        values (p_ticket, p_name, r.place, r.host, r.pid, r.label, p_by, p_reason,
            clock_timestamp())
        on conflict do nothing;
        perform leasehold.tell(r.session, 'renew');
    end if;
end
$$;
