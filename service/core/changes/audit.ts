import type { ActorFacts } from '../../db/column-types.ts'
import type { Ids } from '../../lib/ids.ts'
import type { AuditEvent } from './store.ts'

export type Actor =
  | { kind: 'api_key' | 'user'; id: string }
  /** `name`: the owner of the token, `api_key:<id>` or `user:<id>`. It is stored, because the agent session may be deleted. */
  | { kind: 'tool_token'; id: string; name: string }
  | { kind: 'operator'; name: string }
  | { kind: 'service'; name: 'setup' | 'cell' | 'api' }

export function actorFacts(actor: Actor): ActorFacts {
  return { kind: actor.kind, id: 'id' in actor ? actor.id : null, name: 'name' in actor ? actor.name : null }
}

export type AuditTargetKind =
  | 'api_key'
  | 'checkpoint'
  | 'export'
  | 'feedback'
  | 'invitation'
  | 'organization'
  | 'person'
  | 'plan'
  | 'pool'
  | 'port'
  | 'project'
  | 'sealing_key'
  | 'secret'
  | 'service_key'
  | 'session'
  | 'signing_key'
  | 'template'
  | 'template_upload'
  | 'template_version'
  | 'tool_token'
  | 'volume'
  | 'template_build'
  | 'workspace'

/** Records of tool calls: one per caller, tool, workspace and minute. */
export const TOOL_CALLS = 'tools.use'

/** Ids of the owner are null if the owner is the organization, or the installation. */
export interface AuditTarget {
  kind: AuditTargetKind
  id: string
  organization_id: string | null
  project_id: string | null
  /** Never a secret: no token, no key value, no input of a workspace. */
  details?: Readonly<Record<string, string | number | boolean | null | readonly string[]>>
}

export interface ChangeOrigin {
  actor: Actor
  ids: Ids
  now: Date
  request_id: string | null
  /** Address of the connection's peer; behind a proxy, the address of the proxy. */
  source_address: string | null
}

export function serviceOrigin(name: 'setup' | 'cell' | 'api', { ids, now }: { ids: Ids; now: Date }): ChangeOrigin {
  return { actor: { kind: 'service', name }, ids, now, request_id: null, source_address: null }
}

/** @param action `<noun>.<verb>`: the id of a route, or of an equivalent operator command. */
export function auditEvent(by: ChangeOrigin, action: string, subject: AuditTarget): AuditEvent {
  const { ids, now, request_id, source_address } = by
  const actor = actorFacts(by.actor)
  return {
    id: ids.next(),
    created_at: now,
    organization_id: subject.organization_id,
    project_id: subject.project_id,
    actor_kind: actor.kind,
    actor_id: actor.id,
    actor_name: actor.name,
    action,
    subject_kind: subject.kind,
    subject_id: subject.id,
    request_id,
    source_address,
    details: JSON.stringify(subject.details ?? {}),
  }
}
