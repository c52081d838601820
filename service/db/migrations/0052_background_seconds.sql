-- For how long the machine of a workspace is not parked, unused and quiet; null: as its template says, or its cell.
alter table workspaces add column background_seconds integer check (background_seconds > 0);
