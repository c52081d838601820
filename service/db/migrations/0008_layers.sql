-- A layer is a checkpoint of a disk without memory: machines start from it, and nothing is restored from it.

alter table checkpoints drop constraint checkpoints_kind_check;
alter table checkpoints add constraint checkpoints_kind_check check (kind in ('suspend', 'snapshot', 'fork', 'recovery', 'parked', 'layer'));
