-- migrate: outside a transaction
-- What is not final yet: of one organization, for its totals, and of all by time, for what makes it final.

create index concurrently if not exists usage_samples_open on usage_samples (organization_id, hour) where is_open;
create index concurrently if not exists usage_samples_grown on usage_samples (organization_id, hour) where is_open and entries > 0;
create index concurrently if not exists usage_samples_open_by_hour on usage_samples (hour) where is_open;
create index concurrently if not exists volume_usage_samples_open on volume_usage_samples (organization_id, hour) where is_open;
create index concurrently if not exists volume_usage_samples_open_by_hour on volume_usage_samples (hour) where is_open;
