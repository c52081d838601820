import { createHash } from 'node:crypto'
import { EGRESS_DEFAULT } from '../../../../contract/internal/host-egress.ts'
import { intersection } from '../../../../contract/egress/intersect.ts'
import { ALLOW_ALL, withinLimits, type EgressPolicy } from '../../../../contract/egress/policy.ts'
import type { EnforcementState } from '../../../../contract/schemas/egress.ts'

/** A version of a policy; `policy` null: the override was removed. */
export interface Versioned {
  version: number
  policy: EgressPolicy | null
  created_at: Date
}

export interface Acknowledged {
  epoch: number
  revision: string
  state: 'enforced' | 'failed'
  acknowledged_at: Date
}

export interface EgressFacts {
  workspace_id: string
  ownership_epoch: number
  observed_state: string
  override: Versioned | null
  project: Versioned | null
  ceiling: EgressPolicy | null
  acknowledged: Acknowledged | null
  secret_ports: number[]
}

export interface Effective {
  /** The policy as set, before the ceiling is applied. */
  policy: EgressPolicy
  source: 'workspace' | 'project' | 'platform'
  effective: EgressPolicy
  /** Ports whose connections are redirected to the secret proxy. Ascending. */
  secret_ports: number[]
  /** Identifies this policy in an acknowledgement of the host. */
  revision: string
}

/** The policy in effect (App, "Egress policy"). */
export function effectiveOf(facts: Pick<EgressFacts, 'override' | 'project' | 'ceiling' | 'secret_ports'>): Effective {
  const { override, project, ceiling, secret_ports } = facts
  const set = (versioned: Versioned | null) => versioned?.policy ?? null
  const source = set(override) !== null ? 'workspace' : set(project) !== null ? 'project' : 'platform'
  const policy = set(override) ?? set(project) ?? ALLOW_ALL
  const effective = withinLimits(intersection(policy, ceiling))
  return { policy, source, effective, secret_ports, revision: revisionOf(effective, secret_ports) }
}

const REVISION_CHARACTERS = 40

export function revisionOf(effective: EgressPolicy, secret_ports: readonly number[] = []): string {
  if (effective.mode === 'allow_all' && secret_ports.length === 0) return EGRESS_DEFAULT
  const policy = [effective.mode, effective.rules.map(({ host, ports }) => [host, ports]), effective.cidrs]
  const text = JSON.stringify(secret_ports.length === 0 ? policy : [...policy, secret_ports])
  return createHash('sha256').update(text).digest('hex').slice(0, REVISION_CHARACTERS)
}

const WITH_MACHINE: ReadonlySet<string> = new Set(['running', 'suspending'])

/** Whether the host enforces the policy (App, "Other state-bearing records"). An acknowledgement of another epoch is ignored. */
export function enforcementOf(facts: EgressFacts, { revision }: Pick<Effective, 'revision'>): EnforcementState {
  const { acknowledged, ownership_epoch, observed_state } = facts
  if (!WITH_MACHINE.has(observed_state) || acknowledged?.epoch !== ownership_epoch) return 'not_enforced'
  return acknowledged.revision === revision ? acknowledged.state : 'pending'
}
