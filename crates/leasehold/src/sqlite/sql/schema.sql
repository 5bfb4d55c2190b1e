-- Layout version 1; docs/stores/sqlite.md explains every field.
create table meta (
    one integer primary key check (one = 1),
    boot text not null
) strict, without rowid;

create table session (
    id blob primary key,
    expires integer not null,
    host text not null,
    pid integer not null,
    label text not null,
    since integer not null
) strict, without rowid;

create table claim (
    name text not null,
    place integer not null,
    ticket blob not null,
    session blob not null,
    holder integer not null,
    capacity integer not null,
    weight integer not null,
    label text,
    since integer not null,
    primary key (name, place)
) strict, without rowid;

create table eviction (
    session blob not null,
    ticket blob not null,
    name text not null,
    token integer not null,
    host text not null,
    pid integer not null,
    label text not null,
    by text not null,
    reason text not null,
    at integer not null,
    told integer not null default 0,
    primary key (session, ticket)
) strict, without rowid;

-- The counter of orders: a row of the name that no lock can have, with the next
-- order in `since`. A new claim mostly goes to the same page as this row, so
-- drawing its order costs no page of its own.
insert into claim (name, place, ticket, session, holder, capacity, weight, since)
values ('', 0, x'', x'', 0, 0, 0, 1);
