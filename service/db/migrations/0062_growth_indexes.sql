-- migrate: outside a transaction
-- The last reading of any machine of a workspace, for the first of another one: there may be 100,000 a day.
create index concurrently if not exists usage_counters_newest on usage_counters (workspace_id, read_at desc);
-- What removes old rows finds them by these.
create index concurrently if not exists volume_usage_samples_by_hour on volume_usage_samples (hour);
create index concurrently if not exists payment_events_by_end on payment_events (applied_at) where applied_at is not null;
create index concurrently if not exists person_sessions_by_end on person_sessions (expires_at);
create index concurrently if not exists invitations_by_age on invitations (created_at);
create index concurrently if not exists template_builds_by_age on template_builds (created_at) where spec <> '{}';
create index concurrently if not exists volumes_tombstones on volumes (deleted_at) where state = 'deleted';
