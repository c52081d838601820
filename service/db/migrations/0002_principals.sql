-- App, "Authentication" 2: a session that waits for its second factor is answered 403 mfa_required.
alter table person_sessions add column mfa_pending boolean not null default false;
create index person_sessions_by_person on person_sessions (person_id);

-- Keys that sign are told of at once when they are retired: each api makes itself another.
create function notify_signing_key() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_signing_key', new.kid);
  return null;
end $$;
create trigger signing_key_changed after insert or update of retired_at on signing_keys
  for each row execute function notify_signing_key();

-- Tool tokens of people are good while their role has tools: the gateways are told when it changes or ends.
create function notify_membership() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_membership', old.person_id::text);
  return null;
end $$;
create trigger membership_changed after update of role or delete on memberships
  for each row execute function notify_membership();
