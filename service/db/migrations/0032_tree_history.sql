-- What each revision of a tree changed and who made it, and trees that begin as another one's: they share its contents.
alter table trees
  add column store_id uuid, -- of the workspace whose contents it shares; null: its own
  add column changes jsonb, -- counts against the revision before; null: nobody counted
  add column made_by jsonb; -- null: nobody has changed it, or the release before did
alter table tree_revisions
  add column entries bigint,
  add column bytes bigint,
  add column created_at timestamptz, -- null, as the next two: of the release before
  add column changes jsonb,
  add column made_by jsonb;
-- A tree that begins as another one's has files at revision 0.
alter table trees drop constraint trees_check;
alter table trees add constraint trees_root_revision_check check (root is not null or revision = 0) not valid;
