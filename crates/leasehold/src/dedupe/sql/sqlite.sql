-- Messages that are done, version 1. May be run again.
create table if not exists leasehold_done (
    message text primary key,
    result blob not null,
    expires integer not null, -- seconds since 1970; may be removed then
    layout integer not null default 1 check (layout = 1)
) strict, without rowid;
create index if not exists leasehold_done_expires on leasehold_done (expires);
