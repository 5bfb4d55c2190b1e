-- Layout version 1; docs/stores/mysql.md explains every field. May be run again:
-- it makes what is missing and leaves the rest.
create table if not exists {meta} (
    one tinyint not null primary key,
    version integer not null,
    server varchar(255) not null,
    started bigint not null,
    floor bigint unsigned not null,
    term bigint not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

create table if not exists {session} (
    id binary(16) not null primary key,
    expires datetime(6) not null,
    ttl bigint not null,
    epoch bigint not null,
    tied tinyint not null,
    host text not null,
    pid bigint not null,
    label text not null,
    since datetime(6) not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- A lock's first seat, number 0, stays when nobody is in it. Whoever changes a
-- queue has that row first: one that is not there cannot be locked without
-- locking the gap around it, and gaps are what deadlocks are made of.
create table if not exists {claim} (
    name varbinary(512) not null,
    seat bigint unsigned not null,
    place bigint unsigned not null,
    ticket binary(16),
    session binary(16),
    holder bigint unsigned not null,
    capacity bigint not null,
    weight bigint not null,
    label text,
    since datetime(6) not null,
    drawn bigint unsigned not null,
    queued tinyint not null,
    term bigint not null,
    primary key (name, seat),
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

insert ignore into {meta} (one, version, server, started, floor, term)
values (1, 1, '', 0, 0, 0);
