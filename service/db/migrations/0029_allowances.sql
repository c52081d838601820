-- What a plan includes of each allowance in a billing period; null: without limit. What is used up, and why, stands with the organization
-- as before: it is judged with every reading of the counters.
alter table plans
  add column cpu_hours integer check (cpu_hours >= 0),
  add column ram_gib_hours integer check (ram_gib_hours >= 0);
