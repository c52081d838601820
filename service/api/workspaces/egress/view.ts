import { ALLOW_ALL } from '../../../../contract/egress/policy.ts'
import type { EgressVersion, ProjectEgressPolicy, WorkspaceEgressPolicy } from '../../../../contract/schemas/egress.ts'
import { effectiveOf, enforcementOf, type EgressFacts, type Versioned } from '../../../core/workspaces/egress/effective.ts'
import type { VersionRow } from './store.ts'

export function projectEgressView(project_id: string, newest: Versioned | null): ProjectEgressPolicy {
  const { version = 0, policy = null, created_at } = newest ?? {}
  return { project_id, ...(policy ?? ALLOW_ALL), version, updated_at: created_at?.toISOString() ?? null }
}

export function workspaceEgressView(facts: EgressFacts): WorkspaceEgressPolicy {
  const { workspace_id, override, project, ceiling, acknowledged } = facts
  const found = effectiveOf(facts)
  const state = enforcementOf(facts, found)
  return {
    workspace_id,
    ...found.policy,
    source: found.source,
    version: override?.version ?? 0,
    project_version: project?.version ?? 0,
    template_egress: ceiling,
    effective_policy: found.effective,
    enforcement: { state, acknowledged_at: state === 'not_enforced' ? null : (acknowledged?.acknowledged_at.toISOString() ?? null) },
    updated_at: override?.created_at.toISOString() ?? null,
  }
}

export function egressVersionView({ version, mode, rules, cidrs, created_at, created_by_type, created_by_id }: VersionRow): EgressVersion {
  const created_by = { type: created_by_type, id: created_by_id }
  return { version, cleared: mode === null, mode, rules, cidrs, created_at: created_at.toISOString(), created_by }
}
