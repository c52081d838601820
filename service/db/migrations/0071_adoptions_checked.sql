-- migrate: outside a transaction
alter table operations validate constraint operations_kind_check;
