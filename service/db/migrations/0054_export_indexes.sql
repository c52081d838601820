-- migrate: outside a transaction
-- Records of an account are in the chain of the installation, among everybody's.
create index concurrently if not exists audit_events_of_accounts on audit_events (subject_id, uuid_send(id)) where organization_id is null;
