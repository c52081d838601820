import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { listKeys } from '../../service/api/api-keys/store.ts'
import { listAttachments } from '../../service/api/attachments/store.ts'
import { listEvents } from '../../service/api/audit/store.ts'
import { listSessions } from '../../service/api/auth/store.ts'
import { listInvoices } from '../../service/api/billing/store.ts'
import { listCheckpoints } from '../../service/api/checkpoints/store.ts'
import { listEgressVersions } from '../../service/api/egress/store.ts'
import { listExports } from '../../service/api/exports/store.ts'
import { listInvitations } from '../../service/api/invitations/store.ts'
import { listMembers } from '../../service/api/members/store.ts'
import { listOperations } from '../../service/api/operations/store.ts'
import { listOrganizations } from '../../service/api/organizations/store.ts'
import { listMemberships } from '../../service/api/principals/store.ts'
import { listPorts } from '../../service/api/ports/store.ts'
import { listSecrets, listVersions } from '../../service/api/secrets/store.ts'
import { listTemplates, listVersions as listVersionsOfTemplate } from '../../service/api/templates/store.ts'
import { listProjects } from '../../service/api/projects/store.ts'
import { listAgentSessions } from '../../service/api/tool-tokens/store.ts'
import { listGrants } from '../../service/api/usage/store.ts'
import { listVolumes } from '../../service/api/volumes/store.ts'
import { dropExpiredCheckpoints } from '../../service/cell/machines/expiry-store.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import type { Reader } from '../../service/db/reader.ts'
import type { Page } from '../../service/api/pages.ts'
import { manyExports } from '../support/exports.ts'
import { counting } from '../support/plans.ts'
import { world, type World } from './support.ts'

const MANY = 20_000

let w: World
let workspace_id: string
let person_id: string
let secret_id: string
let organizations: string[]
let template_id: string
before(async () => {
  w = await world()
  workspace_id = await w.running('many')
  const other = await w.running('other')
  person_id = w.ids.next()
  const { organization_id, project_id } = w.a
  const { superuser: db } = w.database
  const now = w.clock.now()
  // One has half of everything, and its half is the older one. What a filter is for is the oldest of it.
  await sql`insert into operations (id, organization_id, project_id, workspace_id, kind, state, created_at, updated_at, completed_at)
    select ${ids()}, ${organization_id}, ${project_id}, case when n > ${MANY / 2} then ${other}::uuid else ${workspace_id}::uuid end,
      case when n < 8 then 'reset' else (array['suspend', 'resume'])[1 + n / 2 % 2] end, case when n < 16 then 'failed' else 'succeeded' end,
      ${now}, ${now}, ${now} from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into agent_sessions (id, workspace_id, principal_type, principal_id, agent_label, created_at, last_used_at)
    select ${ids()}, case when n > ${MANY / 2} then ${other}::uuid else ${workspace_id}::uuid end, 'api_key', ${w.a.key_row_id}, n::text, ${now}, ${now}
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into projects (id, organization_id, name, slug, created_at)
    select ${ids()}, case when n > ${MANY / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, n, n, ${now}
    from generate_series(1, ${MANY}) n`.execute(db)
  const { plan_id } = await db.selectFrom('organizations').select('plan_id').where('id', '=', organization_id).executeTakeFirstOrThrow()
  await sql`insert into organizations (id, name, slug, plan_id, created_at)
    select ${ids()}, n, n, ${plan_id}, ${now} from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into people (id, email, created_at) values (${person_id}, 'many@example.com', ${now})`.execute(db)
  await sql`insert into people (id, email, created_at) select ${ids()}, n, ${now} from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into memberships (organization_id, person_id, role, created_at)
    select ${organization_id}, id, 'member', ${now} from people`.execute(db)
  await sql`insert into person_sessions (id, person_id, token_sha256, created_at, last_used_at, expires_at, revoked_at)
    select ${ids()}, case when n > ${MANY / 2} then (select id from people where email = '1') else ${person_id}::uuid end, sha256(n::text::bytea),
      ${now}, ${now}, ${now}::timestamptz + interval '90 days', case when n % 2 = 0 then ${now}::timestamptz end
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into invitations (id, organization_id, email, role, created_at, expires_at, accepted_at)
    select ${ids()}, ${organization_id}, n, 'member', ${now}, ${now}::timestamptz + interval '7 days', case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into api_keys (id, key_id, secret_sha256, organization_id, project_id, tool_permissions, created_at, revoked_at)
    select ${ids()}, n, '', ${organization_id}, ${project_id}, '{}', ${now}, case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into audit_events (id, created_at, organization_id, actor_kind, action, subject_kind, subject_id)
    select ${ids()}, ${now}, case when n > ${MANY / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, 'service', 'a', 'b', n
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into usage_grants (id, organization_id, allowance, granted_meter_units, created_at)
    select ${ids()}, case when n > ${MANY / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, 'cpu_hours', n, ${now}
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into invoices (id, organization_id, number, state, period_starts_at, period_ends_at, currency, lines, total_minor, issued_at, due_at)
    select ${ids()}, case when n > ${MANY / 2} then ${w.b.organization_id}::uuid else ${organization_id}::uuid end, n, 'paid',
      ${now}::timestamptz + n * interval '1 day', ${now}, 'EUR', '[]', 1, ${now}, ${now} from generate_series(1, ${MANY}) n`.execute(db)
  await manyExports(w, MANY, person_id)
  // Most of what there is has been deleted, and what lives is the oldest.
  const other_project = w.a2.project_id
  secret_id = w.ids.next()
  await sql`insert into secrets (id, organization_id, project_id, name, allowed_tools, version, created_at, updated_at, deleted_at)
    select ${ids()}, ${organization_id}, (array[${project_id}::uuid, ${other_project}::uuid, null])[1 + n % 3], n, '{}', 1, ${now}, ${now},
      case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into secrets (id, organization_id, project_id, name, allowed_tools, version, created_at, updated_at)
    values (${secret_id}, ${organization_id}, ${project_id}, 'many', '{}', 1, ${now}, ${now})`.execute(db)
  await sql`insert into secret_versions (id, secret_id, version, created_at, erased_at)
    select ${ids()}, case when n > ${MANY / 2} then (select id from secrets where name = '1') else ${secret_id}::uuid end, n, ${now}, ${now}
    from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into egress_versions (id, organization_id, project_id, workspace_id, version, mode, created_by_type, created_by_id, created_at)
    select ${ids()}, ${organization_id}, ${project_id}, (array[${workspace_id}::uuid, ${other}::uuid, null])[1 + n % 3], n, 'deny_all',
      'api_key', ${w.a.key_row_id}, ${now} from generate_series(1, ${MANY}) n`.execute(db)
  await sql`insert into volumes (id, organization_id, project_id, name, quota_gib, org_shared, state, created_at, updated_at, deleted_at)
    select ${ids()}, ${organization_id}, (array[${project_id}::uuid, ${other_project}::uuid])[1 + n % 2], n, 1, n % 50 = 0,
      case when n > 60 then 'deleted' else 'available' end, ${now}, ${now}, case when n > 60 then ${now}::timestamptz end
    from generate_series(1, ${MANY}) n`.execute(db)
  // Workspaces have some fifty checkpoints at most. A few are over.
  const { cell_id } = await db.selectFrom('workspaces').select('cell_id').where('id', '=', other).executeTakeFirstOrThrow()
  await db.transaction().execute(async (tx) => {
    await sql`set local session_replication_role = replica`.execute(tx) // so that most may be of workspaces that are not there
    await sql`insert into checkpoints (id, workspace_id, cell_id, operation_id, kind, engine, epoch, size_bytes, resources, created_at, expires_at, deleted_at)
      select ${ids()}, case when n <= 30 then ${workspace_id}::uuid when n <= 50 then ${other}::uuid else md5((n / 20)::text)::uuid end,
        ${cell_id}, ${w.ids.next()}, 'snapshot', 'e', 1, 1, '{}', ${now},
        case when n between 31 and 40 then ${now}::timestamptz - interval '1 day' when n % 2 = 0 then ${now}::timestamptz + interval '7 days' end,
        case when n between 41 and 50 then ${now}::timestamptz - interval '40 days' end
      from generate_series(1, ${MANY}) n`.execute(tx)
    // And sixteen volumes.
    await sql`insert into volume_attachments (id, workspace_id, volume_id, mount_path, mode, place, state, created_at, updated_at)
      select ${ids()}, case when n <= 16 then ${workspace_id}::uuid else md5((n / 16)::text)::uuid end, md5('v' || n)::uuid, '/' || n, 'read_only', n % 16,
        'attached', ${now}, ${now} from generate_series(1, ${MANY}) n`.execute(tx)
    // And forty ports, each with a callback URL.
    await sql`insert into workspace_ports (id, workspace_id, port, created_at)
      select ${ids()}, case when n <= 40 then ${workspace_id}::uuid else md5((n / 40)::text)::uuid end, 1000 + n % 40, ${now}
      from generate_series(1, ${MANY}) n`.execute(tx)
    await sql`insert into port_credentials (id, port_id, kind, sha256, created_at)
      select md5(id::text)::uuid, id, 'callback', sha256(id::text::bytea), ${now} from workspace_ports`.execute(tx)
  })
  organizations = (await db.selectFrom('organizations').select('id').where('slug', 'in', ['1', '2', '3']).execute()).map(({ id }) => id)
  await sql`insert into templates (id, organization_id, slug, created_at)
    select ${ids()}, case when n <= 30 then ${organization_id}::uuid when n <= 40 then null else (select id from organizations where slug = n::text) end,
      't' || n, ${now} from generate_series(1, ${MANY}) n`.execute(db)
  template_id = (await db.selectFrom('templates').select('id').where('slug', '=', 't1').executeTakeFirstOrThrow()).id
  await sql`insert into template_versions (id, template_id, version, layered, layers, settings, created_at, published_at)
    select ${ids()}, case when n > ${MANY / 2} then (select id from templates where slug = 't2') else ${template_id}::uuid end, n, true, '{}', '{}',
      ${now}, ${now} from generate_series(1, ${MANY}) n`.execute(db)
  await sql`analyze`.execute(db)
})
after(() => w[Symbol.asyncDispose]())

/** Version 7 in the order in which they are made. */
function ids() {
  return sql`('01920000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
}

interface List {
  route: string
  by: string
  table: string
  /** What it may look at for a page of ten. */
  rows_max: number
  /** Other tables that it may read whole: they have two rows here. */
  small?: string[]
  read(reads: Reader, page: Page): Promise<{ id: string }[]>
}

const OPERATIONS = { route: 'operations.list', table: 'operations', rows_max: 200 }
const LISTS: List[] = [
  { ...OPERATIONS, by: 'nothing', read: (reads, page) => listOperations(reads, workspace_id, {}, page) },
  { ...OPERATIONS, by: 'a common state', read: (reads, page) => listOperations(reads, workspace_id, { state: 'succeeded' }, page) },
  { ...OPERATIONS, by: 'a rare state', read: (reads, page) => listOperations(reads, workspace_id, { state: 'failed' }, page) },
  { ...OPERATIONS, by: 'a state that none has', read: (reads, page) => listOperations(reads, workspace_id, { state: 'queued' }, page) },
  { ...OPERATIONS, by: 'a common kind', read: (reads, page) => listOperations(reads, workspace_id, { kind: 'suspend' }, page) },
  { ...OPERATIONS, by: 'a rare kind', read: (reads, page) => listOperations(reads, workspace_id, { kind: 'reset' }, page) },
  {
    ...OPERATIONS,
    by: 'a common kind in a rare state',
    read: (reads, page) => listOperations(reads, workspace_id, { kind: 'suspend', state: 'failed' }, page),
  },
  {
    route: 'agent-sessions.list',
    by: 'nothing',
    table: 'agent_sessions',
    rows_max: 20,
    read: (reads, page) => listAgentSessions(reads, workspace_id, page),
  },
  {
    route: 'checkpoints.list',
    by: 'nothing',
    table: 'checkpoints',
    rows_max: 60, // all of a workspace, which are few by its limits
    read: (reads, page) => listCheckpoints(reads, workspace_id, w.clock.now(), page),
  },
  {
    route: 'projects.list',
    by: 'nothing',
    table: 'projects',
    rows_max: 20,
    read: (reads, page) => listProjects(reads, w.a.organization_id, null, page),
  },
  {
    route: 'projects.list',
    by: 'the project of a key',
    table: 'projects',
    rows_max: 2,
    read: (reads, page) => listProjects(reads, w.a.organization_id, w.a.project_id, page),
  },
  {
    route: 'secret-versions.list',
    by: 'nothing',
    table: 'secret_versions',
    rows_max: 20,
    read: (reads, page) => listVersions(reads, secret_id, page),
  },
  ...(['secrets.list', 'secrets.list_of_organization'] as const).flatMap((route): List[] =>
    [false, true].map((include_deleted) => ({
      route,
      by: include_deleted ? 'deleted ones too' : 'nothing',
      table: 'secrets',
      rows_max: 20,
      read: (reads, page) => {
        const { organization_id, project_id } = w.a
        return listSecrets(reads, route === 'secrets.list' ? { project_id } : { organization_id }, include_deleted, page)
      },
    })),
  ),
  {
    route: 'attachments.list',
    by: 'nothing',
    table: 'volume_attachments',
    rows_max: 40, // all of a workspace, twice
    read: (reads, page) => listAttachments(reads, workspace_id, page),
  },
  {
    route: 'ports.list',
    by: 'nothing',
    table: 'workspace_ports',
    rows_max: 100, // all of a workspace, twice
    read: (reads, page) => listPorts(reads, workspace_id, page),
  },
  {
    route: 'egress.project_versions',
    by: 'nothing',
    table: 'egress_versions',
    rows_max: 20,
    read: (reads, page) => listEgressVersions(reads, { ...w.a, workspace_id: null }, page),
  },
  {
    route: 'egress.workspace_versions',
    by: 'nothing',
    table: 'egress_versions',
    rows_max: 20,
    read: (reads, page) => listEgressVersions(reads, { ...w.a, workspace_id }, page),
  },
  ...[false, true].map((include_deleted): List => ({
    route: 'volumes.list',
    by: include_deleted ? 'deleted ones too' : 'nothing',
    table: 'volumes',
    rows_max: 100,
    small: ['workspaces'],
    read: (reads, page) => listVolumes(reads, { ...w.a, include_org_shared: false, include_deleted }, page),
  })),
  ...(['templates.list', 'templates.list_of_organization'] as const).map((route): List => ({
    route,
    by: 'nothing',
    table: 'templates',
    rows_max: 150, // all of an owner, looked at three times
    read: (reads, page) => listTemplates(reads, [w.a.organization_id], route === 'templates.list', page),
  })),
  ...(['template-versions.list', 'template-versions.list_of_organization'] as const).map((route): List => ({
    route,
    by: 'nothing',
    table: 'template_versions',
    rows_max: 20,
    small: ['templates'],
    read: (reads, page) => listVersionsOfTemplate(reads, template_id, page),
  })),
  {
    route: 'auth.sessions',
    by: 'nothing',
    table: 'person_sessions',
    rows_max: 20,
    read: (reads, page) => {
      const ago = (days: number) => new Date(w.clock.now().getTime() - days * 24 * 3600_000)
      return listSessions(reads, person_id, { now: w.clock.now(), idle_since: ago(30), made_since: ago(90) }, page)
    },
  },
  {
    route: 'members.list',
    by: 'nothing',
    table: 'memberships',
    rows_max: 20,
    read: (reads, page) => listMembers(reads, w.a.organization_id, page),
  },
  {
    route: 'invitations.list',
    by: 'nothing',
    table: 'invitations',
    rows_max: 20,
    read: (reads, page) => listInvitations(reads, w.a.organization_id, w.clock.now(), page),
  },
  ...[false, true].map((include_revoked): List => ({
    route: 'api-keys.list',
    by: include_revoked ? 'revoked ones too' : 'nothing',
    table: 'api_keys',
    rows_max: 20,
    small: ['api_key_uses'],
    read: (reads, page) => listKeys(reads, w.a.project_id, include_revoked, page),
  })),
  {
    route: 'audit.list',
    by: 'nothing',
    table: 'audit_events',
    rows_max: 20,
    read: async (reads, { below, limit }) => {
      return (await listEvents(reads, w.a.organization_id, {}, { below, limit: limit + 1 }, limit + 1)).rows
    },
  },
  ...['exports.list', 'exports.list_of_organization'].map((route) => ({
    route,
    by: 'nothing',
    table: 'exports',
    rows_max: 20,
    read: (reads: Reader, page: Page) => listExports(reads, route === 'exports.list' ? { person_id } : w.a, page),
  })),
  {
    route: 'invoices.list',
    by: 'nothing',
    table: 'invoices',
    rows_max: 20,
    read: (reads, page) => listInvoices(reads, w.a.organization_id, page),
  },
  {
    route: 'usage.grants',
    by: 'nothing',
    table: 'usage_grants',
    rows_max: 20,
    small: ['usage_grant_draws'],
    read: (reads, page) => listGrants(reads, w.a.organization_id, page),
  },
  {
    route: 'organizations.list',
    by: 'nothing',
    table: 'organizations',
    rows_max: 20,
    read: (reads, page) => listOrganizations(reads, organizations, page),
  },
]

test('every route that pages is looked at here or in list-plans.test.ts', () => {
  const paged = APP_ROUTES.filter(({ query }) => JSON.stringify(query ?? {}).includes('"cursor"')).map(({ id }) => id)
  const elsewhere = paged.filter((id) => /^(workspaces\.list|template-files\.)/.test(id)) // files are read by the keys of directories
  assert.deepEqual([...new Set([...LISTS.map(({ route }) => route), ...elsewhere])].sort(), paged.sort())
})

for (const { route, by, table, rows_max, small = [], read } of LISTS) {
  test(`${route} by ${by} reads the rows of its page by an index, on its second page and further down too`, async () => {
    for (const plan of ['generic', 'custom'] as const) {
      let below: string | null = null
      for (let page = 1; page <= 3; page++) {
        const { counted, reads } = counting(w.database.superuser, table, plan)
        const rows: { id: string }[] = await read(reads, { limit: 10, below })
        assert.deepEqual(
          [...counted.scanned].filter((name) => !small.includes(name)),
          [],
          `${plan} plan, page ${page}`,
        )
        assert.ok(counted.rows <= rows_max, `${counted.rows} rows, ${plan} plan, page ${page}`)
        const last: { id: string } | undefined = rows.length > 10 ? rows.at(9) : undefined
        if (last === undefined) break
        below = last.id
      }
    }
  })
}

test('pages of every filter together are what the filter means, each once and in order', async () => {
  const all = await w.database.superuser
    .selectFrom('operations')
    .selectAll()
    .where('workspace_id', '=', workspace_id)
    .orderBy('id', 'desc')
    .execute()
  for (const filter of [{}, { state: 'failed' }, { kind: 'reset' }, { kind: 'suspend', state: 'failed' }, { kind: 'move' }]) {
    const meant = all.filter((row) => Object.entries(filter).every(([name, value]) => row[name as 'kind' | 'state'] === value))
    const { reads } = counting(w.database.superuser, 'operations', 'custom')
    const listed: string[] = []
    for (let below: string | null = null; listed.length < 12; below = listed.at(-1) ?? null) {
      const rows = await listOperations(reads, workspace_id, filter, { limit: 3, below })
      listed.push(...rows.slice(0, 3).map(({ id }) => id))
      if (rows.length <= 3) break
    }
    assert.deepEqual(
      listed,
      meant.slice(0, 12).map(({ id }) => id),
    )
  }
})

test('the organizations of a person are read by an index', async () => {
  const { counted, reads } = counting(w.database.superuser, 'memberships', 'generic')
  assert.equal((await listMemberships(reads, person_id)).length, 1)
  assert.deepEqual([[...counted.scanned], counted.rows], [[], 1])
})

test('expired and deleted checkpoints are found without looking at those that stay', async () => {
  const scans = sql<{ seq_scan: string }>`select seq_scan::text from pg_stat_xact_user_tables where relname = 'checkpoints'`
  const read = await w.database.superuser.transaction().execute(async (tx) => {
    const dropped = await dropExpiredCheckpoints(tx, w.clock.now(), new Date(w.clock.now().getTime() - 30 * 86_400_000))
    return { dropped, scanned: (await scans.execute(tx)).rows[0]?.seq_scan }
  })
  assert.deepEqual(read, { dropped: 20, scanned: '0' })
})
