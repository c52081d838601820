import type { SuspendRequest, Workspace } from '../../../contract/schemas/workspaces.ts'
import { idleRule, nextIdleEnd, pendingSuspend, type PendingSuspend, type IdleRule } from '../../core/workspaces/idle.ts'
import { operationView } from './operations/view.ts'
import { activeOperation, ceilings, isReady, type WorkspaceRow } from './row.ts'

export function workspaceView(row: WorkspaceRow): Workspace {
  const active = activeOperation(row)
  return {
    id: row.id,
    organization_id: row.organization_id,
    project_id: row.project_id,
    key: row.key,
    observed_state: row.observed_state,
    desired_state: row.desired_state,
    ready: isReady(row),
    template: { slug: row.template_slug, version: row.template_version },
    active_operation: active === null ? null : operationView(active),
    pending_reason: row.pending_reason ?? (active?.state === 'capacity_pending' ? active.state_reason : null),
    grants: grants(row),
    ceilings: ceilings(row),
    caps: row.caps,
    lifetime: row.lifetime,
    purpose: row.purpose,
    disk_layout: row.disk_layout,
    origin: row.origin,
    idle_timeout_seconds: ruleOf(row).timeout_seconds,
    ended_reason: row.ended_reason,
    startup: row.startup,
    mode: row.mode,
    tree_revision: row.tree_revision,
    ownership_epoch: row.ownership_epoch,
    cell_endpoint: row.cell_endpoint,
    idle: idleView(row),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    deleted_at: row.deleted_at?.toISOString() ?? null,
  }
}

function idleView(row: WorkspaceRow): Workspace['idle'] {
  const is_running = row.observed_state === 'running'
  const asked = is_running ? pendingSuspend(row) : null
  const end = is_running && row.mode !== 'file_first' ? nextIdleEnd(row) : null
  return {
    ...ruleOf(row),
    next_eligible_at: end?.at.toISOString() ?? null,
    next_eligible_by: end?.by ?? null,
    suspend_request: asked === null ? null : suspendRequestView(asked),
    recent_activity: {
      active_at: row.active_at.toISOString(),
      tool_call_at: row.tool_call_at?.toISOString() ?? null,
      busy_until: row.busy_until?.toISOString() ?? null,
      keepalive_until: row.keepalive_until?.toISOString() ?? null,
    },
    background_seconds: row.mode === 'file_first' ? null : (row.background_seconds ?? row.template_defaults.background_seconds ?? null),
    failed_suspends: row.idle_failures,
  }
}

function ruleOf(row: WorkspaceRow): IdleRule {
  return row.mode === 'file_first' ? { policy: 'never', timeout_seconds: null, basis: 'never' } : idleRule(row)
}

export function suspendRequestView(asked: PendingSuspend): SuspendRequest {
  return { requested_at: asked.requested_at.toISOString(), after_seconds: asked.after_seconds, not_before: asked.not_before.toISOString() }
}

function grants(row: WorkspaceRow): Workspace['grants'] {
  const { grant_cpu_millis: cpu_millis, grant_memory_mib: memory_mib, grant_disk_gib: disk_gib } = row
  return cpu_millis === null || memory_mib === null || disk_gib === null ? null : { cpu_millis, memory_mib, disk_gib }
}
