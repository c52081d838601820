-- migrate: outside a transaction
create index concurrently if not exists audit_events_unlinked on audit_events (organization_id, id) where sequence is null;
create unique index concurrently if not exists audit_events_chain on audit_events (organization_id, sequence) where sequence is not null;
-- Calls of tools are many, and changes are looked for between them: each list has an index of its own.
create index concurrently if not exists audit_events_changes on audit_events (organization_id, uuid_send(id) desc) where action <> 'tools.use';
create index concurrently if not exists audit_events_tools on audit_events (organization_id, uuid_send(id) desc) where action = 'tools.use';
drop index concurrently if exists audit_events_newest;
drop index concurrently if exists audit_events_by_organization;
