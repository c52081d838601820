import type { ActorFacts } from '../../db/schema-audit.ts'
import type { Ids } from '../../lib/ids.ts'
import type { AuditEvent } from './store.ts'

/** Who changes something. */
export type Actor =
  | { kind: 'api_key' | 'user'; id: string }
  /** `name`: whose token it is, `api_key:<id>` or `user:<id>`; the agent session may be gone one day. */
  | { kind: 'tool_token'; id: string; name: string }
  /** On the command line of the computer: the name of the account. */
  | { kind: 'operator'; name: string }
  /** The service itself, where somebody may ask who did it. */
  | { kind: 'service'; name: 'setup' | 'cell' | 'api' }

/** As records of changes and operations keep an actor. */
export function actorFacts(actor: Actor): ActorFacts {
  return { kind: actor.kind, id: 'id' in actor ? actor.id : null, name: 'name' in actor ? actor.name : null }
}

export type SubjectKind =
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

/** The action of calls of tools: one record for who used which tool of which workspace in which minute. */
export const TOOL_CALLS = 'tools.use'

/** What is changed, and whose it is. Nulls: the organization's, or the installation's. */
export interface Subject {
  kind: SubjectKind
  id: string
  organization_id: string | null
  project_id: string | null
  /** What a reader of the record needs beside it. Never a secret: no token, no value of a key, no input of a workspace. */
  details?: Readonly<Record<string, string | number | boolean | null | readonly string[]>>
}

/** From whom a change comes, and by which request. */
export interface By {
  actor: Actor
  ids: Ids
  now: Date
  request_id: string | null
  /** The other end of the connection; behind a proxy it is the proxy. */
  source_address: string | null
}

/** The service's own changes have no request. */
export function byService(name: 'setup' | 'cell' | 'api', { ids, now }: { ids: Ids; now: Date }): By {
  return { actor: { kind: 'service', name }, ids, now, request_id: null, source_address: null }
}

/** @param action `<noun>.<verb>`: the id of a route, or of one that would do the same. */
export function auditEvent(by: By, action: string, subject: Subject): AuditEvent {
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
