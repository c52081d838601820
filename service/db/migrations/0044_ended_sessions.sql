-- Tool tokens of a person are of one session: the gateways are told when it ends.
create function notify_session_end() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_membership', new.person_id::text);
  return null;
end $$;
create trigger session_ended after update of revoked_at on person_sessions
  for each row when (old.revoked_at is null and new.revoked_at is not null) execute function notify_session_end();
create index person_sessions_ended on person_sessions (person_id, revoked_at) where revoked_at is not null;
