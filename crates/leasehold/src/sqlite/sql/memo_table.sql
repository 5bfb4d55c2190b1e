-- Beside layout version 1: made by the first write of a memo.
create table if not exists memo (
    name text primary key,
    token integer not null,
    edition integer not null,
    bytes blob not null
) strict, without rowid;
-- When memos end that are kept for a time only: in nanoseconds, by the boot clock
-- of the boot that wrote it, and by the wall clock for every other boot.
create table if not exists memo_end (
    name text primary key,
    boot text not null,
    ends integer not null,
    wall_ends integer not null
) strict, without rowid;
create index if not exists memo_end_boot on memo_end (boot, ends);
create index if not exists memo_end_wall on memo_end (wall_ends)
