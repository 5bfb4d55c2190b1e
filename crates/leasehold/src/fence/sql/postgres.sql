-- The marks of fenced resources, version 1. May be run again.
-- The number is any; it keeps two from making the table at the same time.
select pg_advisory_xact_lock(7809639174);
create table if not exists leasehold_fence (
    resource text collate "C" primary key,
    token bigint not null,   -- of the newest claim; 0 before the first
    holder text not null,    -- 16 hexadecimal digits; nothing before the first
    turn bigint not null,    -- grows with every transaction that passes
    layout integer not null default 1 check (layout = 1)
);
