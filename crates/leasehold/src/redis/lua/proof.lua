-- What comes is of now: a server that has become a replica refuses to write. There
-- is no such field.
call('HDEL', lock, '')
