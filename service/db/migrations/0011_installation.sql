-- Which installation this database is of. A database that was made anew has another id, so a host that remembers the id of its own can
-- tell that it looks at a strange one. A restored backup has the same: what is newer than it is told by fences, not by this.
-- The four digits in the names of a computer's things are another id: they follow from a path, whatever the database is.
create table installation (
  id uuid primary key default gen_random_uuid(),
  is_only boolean not null default true unique check (is_only) -- one row
);
insert into installation default values;
grant select (id) on installation to berth_api, berth_cell;
