-- Credits: so much of an allowance beyond what the plan includes, given by an operator, until it is used or its time is over.
create table usage_grants (
  id uuid primary key,
  organization_id uuid not null references organizations,
  allowance text not null check (allowance in ('cpu_hours', 'ram_gib_hours')),
  granted_meter_units bigint not null check (granted_meter_units > 0),
  note text not null default '',
  created_at timestamptz not null,
  expires_at timestamptz, -- null: never
  revoked_at timestamptz
);
create index usage_grants_newest on usage_grants (organization_id, uuid_send(id) desc);

-- What was taken of a grant in a billing period, for what was used beyond what the plan includes.
create table usage_grant_draws (
  grant_id uuid not null references usage_grants,
  period_starts_at timestamptz not null,
  meter_units bigint not null check (meter_units > 0),
  drawn_at timestamptz not null,
  primary key (grant_id, period_starts_at)
);

-- At how many percent an organization wants to be told. No row: the platform's.
create table spend_alert_settings (
  organization_id uuid primary key references organizations,
  thresholds_percent integer[] not null,
  changed_at timestamptz not null
);

-- Each threshold that was reached in a billing period, once. The api writes the mail.
create table spend_alerts (
  id uuid primary key,
  organization_id uuid not null references organizations,
  period_starts_at timestamptz not null,
  subject text not null check (subject in ('cpu_hours', 'ram_gib_hours', 'spend_cap')),
  threshold_percent integer not null check (threshold_percent > 0),
  reached_at timestamptz not null,
  mailed_at timestamptz, -- null: nobody was told yet
  unique (organization_id, period_starts_at, subject, threshold_percent)
);
create index spend_alerts_waiting on spend_alerts (reached_at) where mailed_at is null;

alter table mails add column spend_alert_id uuid;
