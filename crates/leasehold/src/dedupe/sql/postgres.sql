-- Messages that are done, version 1. May be run again.
-- The number is any; it keeps two from making the table at the same time.
select pg_advisory_xact_lock(7809639175);
create table if not exists leasehold_done (
    message text collate "C" primary key,
    result bytea not null,
    expires bigint not null, -- seconds since 1970; may be removed then
    layout integer not null default 1 check (layout = 1)
);
create index if not exists leasehold_done_expires on leasehold_done (expires);
