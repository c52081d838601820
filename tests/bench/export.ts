import { sql } from 'kysely'
import pino from 'pino'
import { makeAll } from '../../service/api/records/exports/maker.ts'
import { linkEvents } from '../../service/core/changes/chain-store.ts'
import { seeder, world, type World } from '../api/support.ts'
import { printSeconds, timed } from './harness.ts'

const WORKSPACES = 10_000
const OPERATIONS_EACH = 10
const RECORDS_EACH = 20
const TIMES = 3

export async function exportRows(): Promise<void> {
  await using w = await world({ check: false })
  await fill(w)
  const { token } = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { stepped_up: true })
  const path = `/v1/organizations/${w.a.organization_id}/exports`
  const deps = { db: w.database.api, clock: w.clock, logger: pino({ level: 'silent' }) }
  const samples: number[] = []
  let size_bytes = 0
  for (let n = 0; n < TIMES; n += 1) {
    const { body } = await w.post(path, undefined, { as: token })
    samples.push(await timed(() => makeAll(deps)))
    const made = await w.get(`${path}/${body.id}`, { as: token })
    if (made.body.state !== 'ready') throw new Error(`the export ended as ${made.body.state} ${made.body.failure}`)
    size_bytes = made.body.size_bytes
  }
  const mib = Math.round(size_bytes / 2 ** 20)
  const rows = WORKSPACES * (1 + OPERATIONS_EACH + RECORDS_EACH)
  printSeconds('export', `an export of ${WORKSPACES} workspaces, ${rows} rows, ${mib} MiB, in ${Math.round(process.memoryUsage.rss() / 2 ** 20)} MiB of memory`, samples, 60) // prettier-ignore
}

async function fill({ database, a, cell_id, clock }: World): Promise<void> {
  await database.superuser.transaction().execute(async (db) => {
    await sql`set local statement_timeout = 0`.execute(db)
    const [now, ids] = [clock.now(), { organization_id: a.organization_id, project_id: a.project_id }]
    await sql`insert into workspaces (id, organization_id, project_id, key, template_version_id, observed_state, desired_state, lifetime, mode, disk_layout,
        ceiling_cpu_millis, ceiling_memory_mib, ceiling_disk_gib, cell_id, active_at, created_at, updated_at)
      select md5('w' || n)::uuid, ${ids.organization_id}, ${ids.project_id}, 'export-' || n, v.id, 'suspended', 'suspended', 'persistent', 'processful', 'layered',
        1000, 512, 4, ${cell_id}, ${now}, ${now}, ${now}
      from generate_series(1, ${WORKSPACES}) n, (select id from template_versions limit 1) v`.execute(db)
    await sql`insert into operations (id, organization_id, project_id, workspace_id, kind, state, result, created_at, updated_at, started_at, completed_at, cell_id)
      select md5('o' || w || '-' || n)::uuid, ${ids.organization_id}, ${ids.project_id}, md5('w' || w)::uuid, 'suspend', 'succeeded', '{}', ${now}, ${now}, ${now}, ${now}, ${cell_id}
      from generate_series(1, ${WORKSPACES}) w, generate_series(1, ${OPERATIONS_EACH}) n`.execute(db)
    await sql`insert into audit_events (id, created_at, organization_id, project_id, actor_kind, actor_id, action, subject_kind, subject_id, request_id, source_address)
      select md5('e' || w || '-' || n)::uuid, ${now}, ${ids.organization_id}, ${ids.project_id}, 'api_key', ${a.key_row_id}, 'workspaces.suspend', 'workspace', md5('w' || w)::uuid::text,
        md5('r' || w || '-' || n), '127.0.0.1'
      from generate_series(1, ${WORKSPACES}) w, generate_series(1, ${RECORDS_EACH}) n`.execute(db)
  })
  await sql`analyze`.execute(database.superuser)
  const linked_ms = await timed(() => linkEvents(database.api))
  process.stdout.write(`${WORKSPACES * RECORDS_EACH} records were linked in ${Math.round(linked_ms)} ms\n`)
}
