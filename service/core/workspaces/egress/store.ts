import type { EgressMode, EgressPolicy } from '../../../../contract/egress/policy.ts'
import type { Reader } from '../../../db/reader.ts'
import type { EgressFacts, Versioned } from './effective.ts'

const NEWEST = 'version, mode, rules, cidrs, created_at'
const columns = (of: 'o' | 'p', name: 'override' | 'project') =>
  ['version', 'mode', 'rules', 'cidrs', 'created_at'].map((column) => `${of}.${column} as ${name}_${column}`).join(', ')

const FACTS_TEXT = `select w.id as workspace_id, w.ownership_epoch, w.observed_state, v.egress as ceiling,
  ${columns('o', 'override')}, ${columns('p', 'project')},
  coalesce(h.ports, '{}') as secret_ports, e.epoch as acknowledged_epoch, e.revision, e.state, e.acknowledged_at
from workspaces w
join template_versions v on v.id = w.template_version_id
left join lateral (select ${NEWEST} from egress_versions where workspace_id = w.id order by version desc limit 1) o on true
left join lateral (select ${NEWEST} from egress_versions
  where project_id = w.project_id and workspace_id is null order by version desc limit 1) p on true
left join lateral (
  select array_agg(distinct port::integer order by port::integer) as ports
  from workspace_secrets b
  join lateral (
    select s.hosts from secrets s where s.name = b.name and s.organization_id = w.organization_id and s.deleted_at is null
      and (s.project_id = w.project_id or s.project_id is null) order by s.project_id nulls last limit 1
  ) s on s.hosts is not null
  cross join jsonb_array_elements(s.hosts) host cross join jsonb_array_elements_text(host -> 'ports') port
  where b.workspace_id = w.id
) h on true
left join workspace_egress e on e.workspace_id = w.id`

interface FactsRow {
  workspace_id: string
  ownership_epoch: number
  observed_state: string
  ceiling: EgressPolicy | null
  override_version: number | null
  override_mode: EgressMode | null
  override_rules: EgressPolicy['rules'] | null
  override_cidrs: string[] | null
  override_created_at: Date | null
  project_version: number | null
  project_mode: EgressMode | null
  project_rules: EgressPolicy['rules'] | null
  project_cidrs: string[] | null
  project_created_at: Date | null
  acknowledged_epoch: number | null
  revision: string | null
  state: 'enforced' | 'failed' | null
  acknowledged_at: Date | null
  secret_ports: number[]
}

export async function readEgressFacts(reads: Reader, workspace_ids: string[]): Promise<EgressFacts[]> {
  return (await reads.rows<FactsRow>('egress.facts', `${FACTS_TEXT} where w.id = any($1)`, [workspace_ids])).map(factsOf)
}

function factsOf(row: FactsRow): EgressFacts {
  const { workspace_id, ownership_epoch, observed_state, ceiling, acknowledged_epoch, revision, state, acknowledged_at } = row
  const said = acknowledged_epoch !== null && revision !== null && state !== null && acknowledged_at !== null
  return {
    workspace_id,
    ownership_epoch,
    observed_state,
    ceiling,
    override: versioned(row.override_version, row.override_mode, row.override_rules, row.override_cidrs, row.override_created_at),
    project: versioned(row.project_version, row.project_mode, row.project_rules, row.project_cidrs, row.project_created_at),
    secret_ports: row.secret_ports,
    acknowledged: said ? { epoch: acknowledged_epoch, revision, state, acknowledged_at } : null,
  }
}

function versioned(
  version: number | null,
  mode: EgressMode | null,
  rules: EgressPolicy['rules'] | null,
  cidrs: string[] | null,
  created_at: Date | null,
): Versioned | null {
  if (version === null || created_at === null) return null
  return { version, created_at, policy: mode === null ? null : { mode, rules: rules ?? [], cidrs: cidrs ?? [] } }
}

export async function readProjectPolicy(reads: Reader, project_id: string): Promise<Versioned | null> {
  const [row] = await reads.rows<VersionRow>(
    'egress.of_project',
    `select ${NEWEST} from egress_versions where project_id = $1 and workspace_id is null order by version desc limit 1`,
    [project_id],
  )
  return row === undefined ? null : versioned(row.version, row.mode, row.rules, row.cidrs, row.created_at)
}

interface VersionRow {
  version: number
  mode: EgressMode | null
  rules: EgressPolicy['rules']
  cidrs: string[]
  created_at: Date
}
