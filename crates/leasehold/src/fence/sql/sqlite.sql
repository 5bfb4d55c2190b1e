-- The marks of fenced resources, version 1. May be run again.
create table if not exists leasehold_fence (
    resource text primary key,
    token integer not null,  -- of the newest claim; 0 before the first
    holder text not null,    -- 16 hexadecimal digits; nothing before the first
    turn integer not null,   -- grows with every transaction that passes
    layout integer not null default 1 check (layout = 1)
) strict, without rowid;
