import { sql } from 'kysely'
import type { EgressMode, EgressPolicy } from '../../../../contract/egress/policy.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { DENIED_PROTOCOLS } from '../../../../contract/schemas/egress.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

/** null workspace: the project's policy. */
export interface EgressScope {
  organization_id: string
  project_id: string
  workspace_id: string | null
}

export interface VersionRow {
  id: string
  version: number
  mode: EgressMode | null
  rules: EgressPolicy['rules']
  cidrs: string[]
  created_by_type: 'user' | 'api_key'
  created_by_id: string
  created_at: Date
}

export async function lockProjectEgress(tx: ChangeTx, project_id: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended('egress ' || ${project_id}, 0))`.execute(tx)
}

export interface NewVersion extends EgressScope {
  id: string
  version: number
  /** null removes the workspace's override. */
  policy: EgressPolicy | null
  by: { type: 'user' | 'api_key'; id: string }
  now: Date
}

/** Requires the scope's lock. */
export async function insertEgressVersion(tx: ChangeTx, { policy, by, now, ...scope }: NewVersion): Promise<void> {
  const { mode, rules, cidrs } = policy ?? { mode: null, rules: [], cidrs: [] }
  await tx
    .insertInto('egress_versions')
    .values({ ...scope, mode, rules: JSON.stringify(rules), cidrs, created_by_type: by.type, created_by_id: by.id, created_at: now })
    .execute()
  if (scope.version <= LIMITS.egress.versions_max) return
  const old = tx.deleteFrom('egress_versions').where('version', '<=', scope.version - LIMITS.egress.versions_max)
  if (scope.workspace_id === null) await old.where('project_id', '=', scope.project_id).where('workspace_id', 'is', null).execute()
  else await old.where('workspace_id', '=', scope.workspace_id).execute()
}

const COLUMNS = 'id, version, mode, rules, cidrs, created_by_type, created_by_id, created_at'

export function listEgressVersions(reads: Reader, scope: EgressScope, { below, limit }: Page): Promise<VersionRow[]> {
  const { project_id, workspace_id } = scope
  const of_workspace = workspace_id !== null
  const within = of_workspace ? 'workspace_id = $1' : 'project_id = $1 and workspace_id is null'
  const older = below === null ? '' : 'and version < (select version from egress_versions where id = $3)'
  return reads.rows(
    `egress.versions:${of_workspace ? 'w' : 'p'}${below === null ? '' : 'b'}`,
    `select ${COLUMNS} from egress_versions where ${within} ${older} order by version desc limit $2`,
    [workspace_id ?? project_id, limit + 1, ...(below === null ? [] : [below])],
  )
}

export interface DenialRow {
  name: string | null
  address: string | null
  port: number
  protocol: (typeof DENIED_PROTOCOLS)[number]
  count: number
  first_at: Date
  last_at: Date
}

/** Merges the rows of one target: a host that restarts begins a new count. */
export function listDenials(reads: Reader, workspace_id: string, since: Date): Promise<DenialRow[]> {
  return reads.rows(
    'egress.denials',
    `select max(name) as name, max(address) as address, port, protocol, sum(count)::bigint as count,
       min(first_at) as first_at, max(last_at) as last_at
     from egress_denials where workspace_id = $1 and last_at > $2
     group by protocol, target, port order by max(last_at) desc, protocol, target, port limit $3`,
    [workspace_id, since, LIMITS.egress.denials_max],
  )
}
