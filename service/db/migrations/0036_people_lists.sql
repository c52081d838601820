-- Lists of what is in force cost what they show, however much has ended.
create index invitations_waiting on invitations (organization_id, uuid_send(id) desc) where accepted_at is null and revoked_at is null;
create index api_keys_in_force on api_keys (project_id, uuid_send(id) desc) where revoked_at is null;
