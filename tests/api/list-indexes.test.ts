import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { listKeys } from '../../service/api/access/api-keys/store.ts'
import { listAttachments } from '../../service/api/workspaces/attachments/store.ts'
import { listEvents } from '../../service/api/records/audit/store.ts'
import { listSessions } from '../../service/api/access/auth/store.ts'
import { listInvoices } from '../../service/api/money/billing/store.ts'
import { listCheckpoints } from '../../service/api/workspaces/checkpoints/store.ts'
import { listEgressVersions } from '../../service/api/workspaces/egress/store.ts'
import { listExports } from '../../service/api/records/exports/store.ts'
import { listInvitations } from '../../service/api/access/invitations/store.ts'
import { listMembers } from '../../service/api/access/members/store.ts'
import { listOperations } from '../../service/api/workspaces/operations/store.ts'
import { listOrganizations } from '../../service/api/lifecycle/organizations/store.ts'
import { listMemberships } from '../../service/api/access/principals/store.ts'
import { listPorts } from '../../service/api/workspaces/ports/store.ts'
import { listSecrets, listVersions } from '../../service/api/workspaces/secrets/store.ts'
import { listTemplates, listVersions as listVersionsOfTemplate } from '../../service/api/templates/store.ts'
import { listProjects } from '../../service/api/access/projects/store.ts'
import { listAgentSessions } from '../../service/api/workspaces/tool-tokens/store.ts'
import { listGrants } from '../../service/api/money/usage/store.ts'
import { listVolumes } from '../../service/api/workspaces/volumes/store.ts'
import { dropExpiredCheckpoints } from '../../service/cell/reconcile/expiry-store.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import type { Reader } from '../../service/db/reader.ts'
import type { Page } from '../../service/api/calls/pages.ts'
import { counting } from '../support/plans.ts'
import { manyRows, type Owners } from './many-rows.ts'
import { world, type World } from './support.ts'

const MANY = 20_000

let w: World
let owners: Owners
before(async () => {
  w = await world()
  owners = await manyRows(w, MANY)
})
after(() => w[Symbol.asyncDispose]())

interface List {
  route: string
  by: string
  table: string
  /** Rows for a page of ten. */
  rows_max: number
  /** Tables of only two rows, which may be read whole. */
  small?: string[]
  read(reads: Reader, page: Page): Promise<{ id: string }[]>
}

const OPERATIONS = { route: 'operations.list', table: 'operations', rows_max: 200 }
const LISTS: List[] = [
  { ...OPERATIONS, by: 'nothing', read: (reads, page) => listOperations(reads, owners.workspace_id, {}, page) },
  { ...OPERATIONS, by: 'a common state', read: (reads, page) => listOperations(reads, owners.workspace_id, { state: 'succeeded' }, page) },
  { ...OPERATIONS, by: 'a rare state', read: (reads, page) => listOperations(reads, owners.workspace_id, { state: 'failed' }, page) },
  {
    ...OPERATIONS,
    by: 'a state that none has',
    read: (reads, page) => listOperations(reads, owners.workspace_id, { state: 'queued' }, page),
  },
  { ...OPERATIONS, by: 'a common kind', read: (reads, page) => listOperations(reads, owners.workspace_id, { kind: 'suspend' }, page) },
  { ...OPERATIONS, by: 'a rare kind', read: (reads, page) => listOperations(reads, owners.workspace_id, { kind: 'reset' }, page) },
  {
    ...OPERATIONS,
    by: 'a common kind in a rare state',
    read: (reads, page) => listOperations(reads, owners.workspace_id, { kind: 'suspend', state: 'failed' }, page),
  },
  {
    route: 'agent-sessions.list',
    by: 'nothing',
    table: 'agent_sessions',
    rows_max: 20,
    read: (reads, page) => listAgentSessions(reads, owners.workspace_id, page),
  },
  {
    route: 'checkpoints.list',
    by: 'nothing',
    table: 'checkpoints',
    rows_max: 60, // all of a workspace's rows, which its limits keep few
    read: (reads, page) => listCheckpoints(reads, owners.workspace_id, w.clock.now(), page),
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
    read: (reads, page) => listVersions(reads, owners.secret_id, page),
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
    rows_max: 40, // all of a workspace's rows, twice
    read: (reads, page) => listAttachments(reads, owners.workspace_id, page),
  },
  {
    route: 'ports.list',
    by: 'nothing',
    table: 'workspace_ports',
    rows_max: 100, // all of a workspace's rows, twice
    read: (reads, page) => listPorts(reads, owners.workspace_id, page),
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
    read: (reads, page) => listEgressVersions(reads, { ...w.a, workspace_id: owners.workspace_id }, page),
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
    rows_max: 150, // all of an owner's rows, three times
    read: (reads, page) => listTemplates(reads, [w.a.organization_id], route === 'templates.list', page),
  })),
  ...(['template-versions.list', 'template-versions.list_of_organization'] as const).map((route): List => ({
    route,
    by: 'nothing',
    table: 'template_versions',
    rows_max: 20,
    small: ['templates', 'template_captures'],
    read: (reads, page) => listVersionsOfTemplate(reads, owners.template_id, page),
  })),
  {
    route: 'auth.sessions',
    by: 'nothing',
    table: 'person_sessions',
    rows_max: 20,
    read: (reads, page) => {
      const ago = (days: number) => new Date(w.clock.now().getTime() - days * 24 * 3600_000)
      return listSessions(reads, owners.person_id, { now: w.clock.now(), idle_since: ago(30), made_since: ago(90) }, page)
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
    read: (reads: Reader, page: Page) => listExports(reads, route === 'exports.list' ? { person_id: owners.person_id } : w.a, page),
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
    read: (reads, page) => listOrganizations(reads, owners.organizations, page),
  },
]

test('every route with pages is checked here or in list-plans.test.ts', () => {
  const paged = APP_ROUTES.filter(({ query }) => JSON.stringify(query ?? {}).includes('"cursor"')).map(({ id }) => id)
  // Elsewhere: files are read by directory keys, packages from memory; drafts are in template-draft-lists.test.ts.
  const elsewhere = paged.filter((id) => /^(workspaces\.list|template-files\.|template-packages\.|draft-)/.test(id))
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

test('the pages of every filter together hold its matches, each once and in order', async () => {
  const all = await w.database.superuser
    .selectFrom('operations')
    .selectAll()
    .where('workspace_id', '=', owners.workspace_id)
    .orderBy('id', 'desc')
    .execute()
  for (const filter of [{}, { state: 'failed' }, { kind: 'reset' }, { kind: 'suspend', state: 'failed' }, { kind: 'move' }]) {
    const meant = all.filter((row) => Object.entries(filter).every(([name, value]) => row[name as 'kind' | 'state'] === value))
    const { reads } = counting(w.database.superuser, 'operations', 'custom')
    const listed: string[] = []
    for (let below: string | null = null; listed.length < 12; below = listed.at(-1) ?? null) {
      const rows = await listOperations(reads, owners.workspace_id, filter, { limit: 3, below })
      listed.push(...rows.slice(0, 3).map(({ id }) => id))
      if (rows.length <= 3) break
    }
    assert.deepEqual(
      listed,
      meant.slice(0, 12).map(({ id }) => id),
    )
  }
})

test('an index finds the organizations of a person', async () => {
  const { counted, reads } = counting(w.database.superuser, 'memberships', 'generic')
  assert.equal((await listMemberships(reads, owners.person_id)).length, 1)
  assert.deepEqual([[...counted.scanned], counted.rows], [[], 1])
})

test('expired and deleted checkpoints are found without reading those that stay', async () => {
  const scans = sql<{ seq_scan: string }>`select seq_scan::text from pg_stat_xact_user_tables where relname = 'checkpoints'`
  const read = await w.database.superuser.transaction().execute(async (tx) => {
    const dropped = await dropExpiredCheckpoints(tx, w.clock.now(), new Date(w.clock.now().getTime() - 30 * 86_400_000))
    return { dropped, scanned: (await scans.execute(tx)).rows[0]?.seq_scan }
  })
  assert.deepEqual(read, { dropped: 20, scanned: '0' })
})
