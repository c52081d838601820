-- Each record is linked to the one before it of its organization: sequence counts them, sha256 is of the record and of the link before.
-- Null: it was committed a moment ago, and waits for its link.
alter table audit_events
  add column sequence bigint,
  add column sha256 bytea;

-- Where the chain of an organization ends, and where it begins since its oldest records went.
create table audit_chains (
  chain_id uuid primary key, -- the organization; of the installation 00000000-0000-0000-0000-000000000000
  sequence bigint not null,
  sha256 bytea not null,
  dropped_sequence bigint not null,
  dropped_sha256 bytea not null
);
