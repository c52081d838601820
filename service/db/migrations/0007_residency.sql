-- Where the machine of a running workspace is (Cell, "Parking"): no state of the workspace. What is only frozen counts as resident
-- here: the kernel knows it, and a machine that stands still is as much there as one that runs.

alter table workspaces
  add column residency text not null default 'resident' check (residency in ('resident', 'hibernated', 'restoring')),
  -- Who moved it last, or wants to: what speaks with a lower fence commits nothing.
  add column residency_fence bigint not null default 0;

-- What a hibernated machine is restored from: nobody's but its workspace's, and gone when it is resident again.
alter table checkpoints drop constraint checkpoints_kind_check;
alter table checkpoints add constraint checkpoints_kind_check check (kind in ('suspend', 'snapshot', 'fork', 'recovery', 'parked'));
