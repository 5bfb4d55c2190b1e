-- Draws an order, and with it the 32 tokens of a grant.
update meta set next = next + 32 where one = 1 returning next - 32
