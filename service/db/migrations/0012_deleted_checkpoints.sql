-- A checkpoint that its owner has deleted: nothing is restored from it, and its files go with the next comparison of rows and host. The row
-- stays as long as a tombstone, so that the request can be repeated.

alter table checkpoints add column deleted_at timestamptz;
grant update (deleted_at) on checkpoints to berth_api;

create function notify_checkpoint() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_checkpoint', new.id::text);
  return null;
end $$;
create trigger checkpoint_deleted after update of deleted_at on checkpoints for each row execute function notify_checkpoint();
