-- Beside layout version 1: made by the first write of a memo.
create table if not exists memo (
    name text primary key,
    token integer not null,
    edition integer not null,
    bytes blob not null
) strict, without rowid
