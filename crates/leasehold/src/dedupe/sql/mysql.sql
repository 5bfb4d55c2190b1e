-- Messages that are done, version 1. May be run again.
create table if not exists leasehold_done (
    message varbinary(512) primary key,
    result varbinary(4000) not null,
    expires bigint not null, -- seconds since 1970; may be removed then
    layout integer not null default 1 check (layout = 1),
    key leasehold_done_expires (expires)
) engine = InnoDB;
