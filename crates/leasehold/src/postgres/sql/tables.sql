-- Layout version 1; docs/stores/postgres.md explains every field. May be run
-- again: it makes what is missing and leaves the rest.
create schema if not exists leasehold;

create table if not exists leasehold.meta (
    one boolean primary key default true check (one),
    version integer not null,
    server text not null
);

-- The counter of orders. A sequence is drawn before the commit, so two
-- transactions could commit out of order; here whoever draws has the lock of
-- that name, and so order and commit agree.
create sequence if not exists leasehold.token increment by 32;

create table if not exists leasehold.session (
    id uuid primary key,
    expires timestamptz not null,
    ttl bigint not null,
    epoch bigint not null default 0,
    host text not null,
    pid bigint not null,
    label text not null,
    since timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);

create table if not exists leasehold.claim (
    name text collate "C" not null,
    place bigint not null,
    ticket uuid not null,
    session uuid not null,
    holder bigint not null,
    capacity bigint not null,
    weight bigint not null,
    label text,
    since timestamptz not null,
    primary key (name, place)
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

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
