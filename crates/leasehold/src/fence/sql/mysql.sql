-- The marks of fenced resources, version 1. May be run again.
create table if not exists leasehold_fence (
    resource varbinary(255) primary key,
    token bigint not null,   -- of the newest claim; 0 before the first
    holder varchar(16) character set ascii not null, -- hexadecimal; nothing before the first
    turn bigint not null,    -- grows with every transaction that passes
    layout integer not null default 1 check (layout = 1)
) engine = InnoDB;
