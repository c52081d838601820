-- migrate: outside a transaction
create index concurrently if not exists checkpoints_of_captures on checkpoints (cell_id) where kind = 'layer' and expires_at is null and deleted_at is null;
create index concurrently if not exists template_builds_of_captures on template_builds (capture_operation_id) where capture_operation_id is not null;
