-- Marks of locks that have had no writer since: whoever puts a writer takes the mark
-- away, also a program that does not know of it. Not logged, so that after a crash
-- or a failover, which may have forgotten a writer, there are none. Beside layout
-- version 1; may be run again.
create unlogged table if not exists leasehold.stamp (
    name text collate "C" primary key,
    mark bigint not null,
    made timestamptz not null default clock_timestamp()
);
alter table leasehold.stamp
    add column if not exists made timestamptz not null default clock_timestamp();
create index if not exists stamp_made on leasehold.stamp (made);

-- With the rights of whoever made it: roles that had theirs before put writers too.
create or replace function leasehold.writer_came() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog as $$
begin
    delete from leasehold.stamp s where s.name = new.name;
    return null;
end
$$;

do $$
begin
    create trigger writer_came after insert on leasehold.claim for each row
    when (new.capacity > 1 and new.weight >= new.capacity)
    execute function leasehold.writer_came();
exception when duplicate_object then
    null;
end
$$;

-- The mark of a lock, made if it is not there; null if there is a writer, dead or
-- not. While a mark is there, there is none. In passing it removes some old marks of
-- locks that nobody uses.
create or replace function leasehold.stamp_of(p_name text, out mark bigint)
language plpgsql volatile security definer set search_path = pg_catalog as $$
begin
    perform leasehold.prove();
    select s.mark into mark from leasehold.stamp s where s.name = p_name;
    if found then
        return;
    end if;
    -- Nobody puts a claim before this transaction ends.
    perform leasehold.take(p_name);
    perform from leasehold.claim c where c.name = p_name and c.weight >= c.capacity;
    if found then
        return;
    end if;
    insert into leasehold.stamp as s (name, mark) values (p_name, nextval('leasehold.token'))
    on conflict (name) do update set mark = s.mark
    returning s.mark into mark;
    -- After the own row, and past whatever others are at, as `memo_write` does.
    delete from leasehold.stamp s where s.name in (
        select o.name from leasehold.stamp o
        where o.made < clock_timestamp() - interval '1 day'
            and not exists (select from leasehold.claim c where c.name = o.name)
        order by o.made limit 20 for update skip locked
    );
end
$$;
