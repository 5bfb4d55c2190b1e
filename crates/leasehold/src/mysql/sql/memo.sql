-- Memos: a few bytes beside a lock that only its holder writes. One that is
-- removed stays, without bytes, so that its edition does. Beside layout version
-- 1; may be run again.
create table if not exists {memo} (
    name varbinary(512) not null primary key,
    token bigint unsigned not null,
    edition bigint unsigned not null,
    bytes blob not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;
