-- Writes the memo if the claim holds by the grant that the token is from, and
-- answers whether it does and whether it is this server's term. Without the first
-- seat's row nobody is granted the lock, and without its own the claim stays. A
-- transaction that it fences shares that one. Last come some names whose memos have
-- ended.
set transaction isolation level read committed;
start transaction read write;
set @leasehold_holds = 0, @leasehold_current = 0;
select count(*) into @leasehold_queue from {claim} where name = {name} and seat = 0 for update;
select count(*) into @leasehold_queue from {claim}
where name = {name} and seat between {first} and {token} and ticket = {ticket}
lock in share mode;
select {current} into @leasehold_current from {meta} m;
select count(*) into @leasehold_holds from {claim} c join {session} s on s.id = c.session
where c.name = {name} and (c.seat = 0 or c.seat between {first} and {token})
and c.ticket = {ticket} and c.place between {first} and {token}
and s.expires > utc_timestamp(6) and not {is_loose}
and c.weight + (
    select coalesce(sum(b.weight), 0) from {claim} b
    where b.name = {name} and b.ticket is not null and b.place < c.place
) <= c.capacity;
insert into {memo} (name, token, edition, bytes, expires)
select d.name, d.token, d.edition, d.bytes, {ends} from (
    select {name} as name, {token} as token, {edition} as edition, {bytes} as bytes
) d
where @leasehold_holds and @leasehold_current
on duplicate key update
    -- From left to right: the token, by which the others are decided, comes last. A
    -- request that comes late does not bring back an older edition of its own hold.
    bytes = if({memo}.token <> {token} or {memo}.edition < {edition}, {bytes}, {memo}.bytes),
    expires = if({memo}.token <> {token} or {memo}.edition < {edition}, {ends}, {memo}.expires),
    edition = if({memo}.token <> {token}, {edition}, greatest({memo}.edition, {edition})),
    token = {token};
select @leasehold_holds, @leasehold_current;
select hex(name) from {memo} where expires <= utc_timestamp(6) order by expires limit {few};
commit
