-- Memos: a few bytes beside a lock that only its holder writes. One that is
-- removed stays, without bytes, so that its edition does. One that is kept for a
-- time has its end, after which it is not there. Beside layout version 1; may be
-- run again. Where memos could not end yet, this is missing:
-- alter table {memo} add column expires datetime(6), add key by_expires (expires)
create table if not exists {memo} (
    name varbinary(512) not null primary key,
    token bigint unsigned not null,
    edition bigint unsigned not null,
    bytes blob not null,
    expires datetime(6),
    key by_expires (expires)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;
