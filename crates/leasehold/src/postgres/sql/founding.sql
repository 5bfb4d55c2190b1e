-- The one row of `meta`, and where the counter starts: at the clock, so that
-- tables made anew go on above the tokens of those before.
do $$
begin
    insert into leasehold.meta (version, server) values (1, leasehold.server())
    on conflict do nothing;
    if found then
        perform setval('leasehold.token',
            (1000000 * extract(epoch from clock_timestamp()))::bigint);
    end if;
end
$$;
