-- What a plan costs, and what is charged for what is used beyond what it includes. Money is in the smallest units of the currency.
alter table plans
  add column is_listed boolean not null default false, -- in the catalog
  add column currency text check (currency ~ '^[A-Z]{3}$'),
  add column price_minor integer check (price_minor >= 0), -- of a billing period
  add column cpu_hour_minor integer check (cpu_hour_minor >= 0), -- null: there is no overage
  add column ram_gib_hour_minor integer check (ram_gib_hour_minor >= 0),
  add check (currency is not null or (price_minor is null and cpu_hour_minor is null and ram_gib_hour_minor is null));

-- Whether an organization wants overage, and how much of it in a billing period. No row: it was never asked.
create table spend_policies (
  organization_id uuid primary key references organizations,
  version integer not null check (version > 0),
  overage_enabled boolean not null,
  spend_cap_minor integer check (spend_cap_minor >= 0),
  -- The last billing period in which it was on: what was charged in it stays due when it is turned off.
  enabled_in timestamptz,
  changed_at timestamptz not null,
  check (spend_cap_minor is not null or not overage_enabled)
);
