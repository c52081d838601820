-- Images of layers on a computer that nothing names any more, and since when: they go when they have been so for some days (decision 230).
create table unnamed_layers (
  cell_id uuid not null references cells (id),
  layer text not null,
  size_bytes bigint not null,
  since timestamptz not null,
  primary key (cell_id, layer)
);
