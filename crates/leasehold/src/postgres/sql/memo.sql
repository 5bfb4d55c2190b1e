-- Memos: a few bytes beside a lock that only its holder writes. One that is
-- removed stays, without bytes, so that its edition does. One that is kept for a
-- time has its end, after which it is not there. Beside layout version 1; may be
-- run again.
create table if not exists leasehold.memo (
    name text collate "C" primary key,
    token bigint not null,
    edition bigint not null,
    bytes bytea not null,
    expires timestamptz
);
alter table leasehold.memo add column if not exists expires timestamptz;
create index if not exists memo_expires on leasehold.memo (expires) where expires is not null;
drop function if exists leasehold.memo_write(text, uuid, bigint, bigint, bytea);

-- Writes the memo if the claim holds. A request that comes late does not bring
-- back an older edition of its own hold. `p_keep` is in milliseconds, null for
-- good. In passing it removes some memos that have ended, of any name.
-- `answer`: written, absent.
create or replace function leasehold.memo_write(
    p_name text, p_ticket uuid, p_token bigint, p_edition bigint, p_bytes bytea,
    p_keep bigint default null, out answer text
) language plpgsql volatile as $$
begin
    answer := 'absent';
    -- Nobody takes the claim out before this transaction ends.
    perform leasehold.take(p_name);
    perform from (
        select c.ticket, c.session, c.place, c.capacity,
            sum(c.weight) over (order by c.place) as used
        from leasehold.claim c where c.name = p_name
    ) q join leasehold.session s on s.id = q.session
    where q.ticket = p_ticket and q.used <= q.capacity and s.expires > clock_timestamp()
        -- A claim that was made anew has other tokens.
        and p_token >= q.place and p_token < q.place + 32;
    if not found then
        return;
    end if;
    insert into leasehold.memo as m (name, token, edition, bytes, expires)
    values (p_name, p_token, p_edition, p_bytes,
        clock_timestamp() + p_keep * interval '1 millisecond')
    on conflict (name) do update
    set token = excluded.token, edition = excluded.edition, bytes = excluded.bytes,
        expires = excluded.expires
    where m.token <> excluded.token or m.edition < excluded.edition;
    answer := 'written';
    -- After the own row, and past whatever others are at: so nobody who has rows
    -- waits for another one, and two can never wait for each other.
    delete from leasehold.memo m where m.name in (
        select o.name from leasehold.memo o where o.expires <= clock_timestamp()
        order by o.expires limit 20 for update skip locked
    );
end
$$;

-- The memo of a lock, null where there is none, and the server's time in
-- microseconds.
create or replace function leasehold.memo_read(
    p_name text, out token bigint, out edition bigint, out bytes text, out micros bigint
) language plpgsql volatile as $$
begin
    perform leasehold.prove();
    select m.token, m.edition, encode(m.bytes, 'hex') into token, edition, bytes
    from leasehold.memo m
    where m.name = p_name and (m.expires is null or m.expires > clock_timestamp());
    micros := (1000000 * extract(epoch from clock_timestamp()))::bigint;
end
$$;
