import { createHash } from 'node:crypto'
import { intersection } from '../../../contract/egress/intersect.ts'
import { ALLOW_ALL, withinLimits, type EgressPolicy } from '../../../contract/egress/policy.ts'
import type { EnforcementState } from '../../../contract/schemas/egress.ts'

/** The newest version of a scope; its policy is null where an override was taken back. */
export interface Versioned {
  version: number
  policy: EgressPolicy | null
  created_at: Date
}

/** What the host has said last of the workspace's machine. */
export interface Acknowledged {
  epoch: number
  revision: string
  state: 'enforced' | 'failed'
  acknowledged_at: Date
}

/** All that says what a workspace may reach. */
export interface EgressFacts {
  workspace_id: string
  ownership_epoch: number
  observed_state: string
  /** null: none was ever set. */
  override: Versioned | null
  project: Versioned | null
  /** Of its template version; null: none. */
  ceiling: EgressPolicy | null
  acknowledged: Acknowledged | null
  /** Ports of the hosts into whose requests bound secrets are put. */
  secret_ports: number[]
}

export interface Effective {
  /** As it was set, before the ceiling. */
  policy: EgressPolicy
  source: 'workspace' | 'project' | 'platform'
  /** What the host enforces. */
  effective: EgressPolicy
  /** Ports to which connections are led through the proxy that puts secrets in, in order. */
  secret_ports: number[]
  /** What an acknowledgement names: the same for the same policy and ports. */
  revision: string
}

/** App, "Egress policy": workspace override > project policy > platform default, and never wider than the template's ceiling. */
export function effectiveOf(facts: Pick<EgressFacts, 'override' | 'project' | 'ceiling' | 'secret_ports'>): Effective {
  const { override, project, ceiling, secret_ports } = facts
  const set = (versioned: Versioned | null) => versioned?.policy ?? null
  const source = set(override) !== null ? 'workspace' : set(project) !== null ? 'project' : 'platform'
  const policy = set(override) ?? set(project) ?? ALLOW_ALL
  const effective = withinLimits(intersection(policy, ceiling))
  return { policy, source, effective, secret_ports, revision: revisionOf(effective, secret_ports) }
}

/** The revision of a machine that was given no policy; machine/internal/wire has the same word. */
export const DEFAULT_REVISION = 'default'
const REVISION_CHARACTERS = 40

export function revisionOf(effective: EgressPolicy, secret_ports: readonly number[] = []): string {
  if (effective.mode === 'allow_all' && secret_ports.length === 0) return DEFAULT_REVISION
  const policy = [effective.mode, effective.rules.map(({ host, ports }) => [host, ports]), effective.cidrs]
  const text = JSON.stringify(secret_ports.length === 0 ? policy : [...policy, secret_ports])
  return createHash('sha256').update(text).digest('hex').slice(0, REVISION_CHARACTERS)
}

/** States in which a workspace has a machine, running or asleep. */
const WITH_MACHINE: ReadonlySet<string> = new Set(['running', 'suspending'])

/** App, "Other state-bearing records". A word about another epoch says nothing about this one. */
export function enforcementOf(facts: EgressFacts, { revision }: Pick<Effective, 'revision'>): EnforcementState {
  const { acknowledged, ownership_epoch, observed_state } = facts
  if (!WITH_MACHINE.has(observed_state) || acknowledged?.epoch !== ownership_epoch) return 'not_enforced'
  return acknowledged.revision === revision ? acknowledged.state : 'pending'
}
