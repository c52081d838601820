-- Who asked for an operation, as records of changes name them: {kind, id, name}. Older operations have none.
alter table operations add column requested_by jsonb;
