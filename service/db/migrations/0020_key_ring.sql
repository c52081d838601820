-- Which keys the api signs with, and which it only reads by. What they are stands in files of the api's user; here are their names.
create table service_keys (
  purpose text not null check (purpose in ('cursor', 'idempotency')),
  key_id text not null check (key_id ~ '^[0-9a-f]{8}$'),
  created_at timestamptz not null,
  check_sha256 bytea, -- of the file; null: no api has made it yet
  retired_at timestamptz, -- nothing is read by it any more, and its file is deleted
  primary key (purpose, key_id)
);
grant select, insert, update on service_keys to berth_api;

create function notify_service_key() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_service_key', new.purpose);
  return null;
end $$;
create trigger service_key_changed after insert or update of retired_at on service_keys
  for each row execute function notify_service_key();
