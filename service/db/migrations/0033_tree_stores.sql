-- migrate: outside a transaction
-- Whether anybody shares the contents of a workspace that goes.
create index concurrently if not exists trees_of_store on trees (store_id) where store_id is not null;
alter table trees validate constraint trees_root_revision_check;
