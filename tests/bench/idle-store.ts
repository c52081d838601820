import pg from 'pg'
import type { TestDatabase } from '../support/postgres.ts'

/** Adds workspaces idle long enough to be checked, but not suspended. */
export async function fill(database: TestDatabase, like: { workspace_id: string; cell_id: string; count: number }): Promise<void> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    await client.query(WORKSPACES, [like.workspace_id, like.cell_id, like.count])
    await client.query('analyze')
  } finally {
    await client.end()
  }
}

const WORKSPACES = `
  insert into workspaces (id, organization_id, project_id, key, template_version_id, observed_state, desired_state, lifetime, mode, disk_layout,
    ceiling_cpu_millis, ceiling_memory_mib, ceiling_disk_gib, cell_id, active_at, created_at, updated_at, idle_gaps)
  select gen_random_uuid(), organization_id, project_id, 'idle-' || n, template_version_id, 'running', 'running', lifetime, mode, disk_layout,
    ceiling_cpu_millis, ceiling_memory_mib, ceiling_disk_gib, $2::uuid, t.at, t.at, t.at, h.gaps
  from workspaces, generate_series(1, $3::int) n, (select clock_timestamp() - interval '15 seconds' as at) t,
    (select array_agg(case when i = 9 then 20 else 0 end::real order by i) as gaps from generate_series(1, 25) i) h
  where id = $1::uuid`
