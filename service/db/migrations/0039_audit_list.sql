-- migrate: outside a transaction
-- The list of an organization's records, in the order of its pages.
create index concurrently if not exists audit_events_newest on audit_events (organization_id, uuid_send(id) desc);
