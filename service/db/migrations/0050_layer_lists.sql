-- What a layer of templates holds by itself, so that files of versions are listed and compared where their images are not. A layer's bytes
-- are its name: what is known of it is the same for every version. Made when somebody asks, and made again when it is lost.
create table layer_lists (
  layer text primary key,
  state text not null check (state in ('wanted', 'ready', 'unavailable')),
  reached text, -- the directory that was written last
  updated_at timestamptz not null
);

create table layer_directories (
  layer text not null references layer_lists on delete cascade,
  path_sha256 bytea not null, -- a path may be longer than a key of an index
  entries jsonb not null,
  primary key (layer, path_sha256)
);

create function notify_layer_list() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_layer_list', new.layer);
  return null;
end $$;
create trigger layer_lists_wanted after insert or update of state on layer_lists
  for each row when (new.state = 'wanted') execute function notify_layer_list();
