-- Beside layout version 1: made by the first stamp. A lock that has a mark has had
-- no writer since it was made: whoever puts a writer takes it away, also a program
-- that does not know of it.
create table if not exists stamp (
    name text primary key,
    mark integer not null
) strict, without rowid;

create trigger if not exists writer_came after insert on claim
when new.capacity > 1 and new.weight >= new.capacity
begin
    delete from stamp where name = new.name;
end;
