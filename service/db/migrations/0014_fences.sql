-- A cell that finds its host ahead of a database that was put back raises the sequence above every fence that the host has seen.
grant select, update on sequence fences to berth_cell;
