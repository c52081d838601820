-- The project whose key made a template: keys of that project may publish its versions by themselves. null: a person or the platform made it.
alter table templates add column project_id uuid references projects;
-- A template and the build that made it have the time of one call; the record of the change says whose call it was.
update templates t set project_id = b.project_id
from template_builds b join audit_events e on e.subject_kind = 'template_build' and e.subject_id = b.id::text and e.actor_kind = 'api_key'
where b.template_id = t.id and b.created_at = t.created_at and t.organization_id = b.organization_id;
-- Nobody is in an organization that ends: who asked for it reads its operation by having asked.
delete from memberships where organization_id in (select id from organizations where deleting_at is not null);
