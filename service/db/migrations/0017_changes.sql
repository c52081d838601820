-- What an operation is about: of a workspace its id once more, of anything else (a volume, the build of a template) that one's own.
alter table operations add column subject_kind text not null default 'workspace';
alter table operations add column subject_id uuid;
update operations set subject_id = workspace_id;
alter table operations alter column subject_id set not null;
alter table operations add check (subject_kind <> 'workspace' or subject_id = workspace_id);
-- A process of the version before names no subject: its operations are of workspaces.
create function fill_operation_subject() returns trigger language plpgsql as $$
begin
  new.subject_id := new.workspace_id;
  return new;
end $$;
create trigger operation_subject before insert on operations
  for each row when (new.subject_id is null) execute function fill_operation_subject();

-- Who changed what. Written in the transaction of the change and never changed; without references, so that it outlives what it names.
create table audit_events (
  id uuid primary key,
  created_at timestamptz not null,
  organization_id uuid, -- null: of the installation
  project_id uuid,      -- null: of the organization, or of the installation
  actor_kind text not null check (actor_kind in ('api_key', 'user', 'tool_token', 'operator', 'service')),
  actor_id uuid,        -- of the API key, the person, or the agent session of the tool token
  actor_name text,      -- the operator's account, the part of the service, whose tool token it was
  action text not null, -- <noun>.<verb>: the id of a route, or of one that would do what the command did
  subject_kind text not null,
  subject_id text not null,
  request_id text,
  source_address text,  -- the other end of the connection
  details jsonb not null default '{}'
);
create index audit_events_by_organization on audit_events (organization_id, id desc);
create index audit_events_by_age on audit_events (created_at);
grant select, insert, delete on audit_events to berth_api;
grant insert on audit_events to berth_cell;

-- A person is one, however the address is written.
create unique index people_by_email on people (lower(email));
alter table people drop constraint people_email_key;

-- What repeats are answered from says whose it is; one that has neither a body nor an answer that is made afresh answers nobody.
update idempotency_entries e
  set outcome = e.outcome || jsonb_build_object('scope', jsonb_build_object('organization_id', w.organization_id, 'project_id', w.project_id))
  from workspaces w where w.id = (e.outcome ->> 'workspace_id')::uuid;
delete from idempotency_entries where not outcome ? 'refused'
  and (not outcome ? 'scope' or not outcome ? 'body' and route not in ('workspaces.open', 'workspaces.resume'));
-- The api alone removes them when they are old.
revoke select (principal, route, key, created_at), delete on idempotency_entries from berth_cell;
