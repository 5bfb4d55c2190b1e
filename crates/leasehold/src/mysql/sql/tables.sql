-- Layout version 1; docs/stores/mysql.md explains every field. May be run again:
-- it makes what is missing and leaves the rest.
create table if not exists {meta} (
    one tinyint not null primary key,
    version integer not null,
    server varchar(255) not null,
    started bigint not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- Whoever changes a queue takes the row of its name's hash first. The rows are
-- made here and never deleted: a row that is not there cannot be locked without
-- locking the gap around it, and gaps are what deadlocks are made of.
create table if not exists {stripe} (
    id integer not null primary key,
    token bigint unsigned not null,
    server varchar(255) not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

create table if not exists {session} (
    id binary(16) not null primary key,
    expires datetime(6) not null,
    ttl bigint not null,
    epoch bigint not null,
    host text not null,
    pid bigint not null,
    label text not null,
    since datetime(6) not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

create table if not exists {claim} (
    name varbinary(512) not null,
    place bigint unsigned not null,
    ticket binary(16) not null,
    session binary(16) not null,
    holder bigint unsigned not null,
    capacity bigint not null,
    weight bigint not null,
    label text,
    since datetime(6) not null,
    primary key (name, place),
    key by_session (session, ticket)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

create table if not exists {eviction} (
    ticket binary(16) not null primary key,
    name varbinary(512) not null,
    token bigint unsigned not null,
    host text not null,
    pid bigint not null,
    label text not null,
    evicted_by text not null,
    reason text not null,
    at datetime(6) not null,
    key by_name (name, at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

insert ignore into {stripe} (id, token, server)
select a.n * 256 + b.n * 16 + c.n, 0, ''
from (select 0 n union all select 1 union all select 2 union all select 3) a,
    (select 0 n union all select 1 union all select 2 union all select 3 union all select 4
     union all select 5 union all select 6 union all select 7 union all select 8
     union all select 9 union all select 10 union all select 11 union all select 12
     union all select 13 union all select 14 union all select 15) b,
    (select 0 n union all select 1 union all select 2 union all select 3 union all select 4
     union all select 5 union all select 6 union all select 7 union all select 8
     union all select 9 union all select 10 union all select 11 union all select 12
     union all select 13 union all select 14 union all select 15) c;

insert ignore into {meta} (one, version, server, started) values (1, 1, '', 0);
