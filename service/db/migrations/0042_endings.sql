-- An organization ends in two steps: from the first on nothing new is made in it, after the second nothing of it is left but its name.
alter table organizations
  add column deleting_at timestamptz,
  add column deleted_at timestamptz;
alter table people add column deleted_at timestamptz;
-- Of an operation that is about an organization: it is no project's.
alter table operations alter column project_id drop not null;

-- Whoever was let in before the organization began to end may be about to make something in it.
create function refuse_in_ending_organization() returns trigger language plpgsql as $$
begin
  if exists (select from organizations where id = new.organization_id and deleting_at is not null) then
    raise exception 'the organization is being deleted' using errcode = 'BE404';
  end if;
  return new;
end $$;
create trigger not_in_ending_organization before insert on workspaces for each row execute function refuse_in_ending_organization();
create trigger not_in_ending_organization before insert on volumes for each row execute function refuse_in_ending_organization();
create trigger not_in_ending_organization before insert on secrets for each row execute function refuse_in_ending_organization();
create trigger not_in_ending_organization before insert on api_keys for each row execute function refuse_in_ending_organization();
create trigger not_in_ending_organization before insert on projects for each row execute function refuse_in_ending_organization();
create trigger not_in_ending_organization before insert on memberships for each row execute function refuse_in_ending_organization();
create trigger not_in_ending_organization before insert on invitations for each row execute function refuse_in_ending_organization();
