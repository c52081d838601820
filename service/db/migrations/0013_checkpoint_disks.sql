-- What the captured disk refers to; null of a checkpoint that an older release wrote.
alter table checkpoints add column disk_bytes bigint;
