import Type, { type Static } from 'typebox'
import { List, Nullable, PageQuery, Text, Timestamp, Uuid, Enum } from './common.ts'

export const ACTOR_KINDS = ['user', 'api_key', 'tool_token', 'operator', 'service'] as const

export const AuditQuery = Type.Object({
  ...PageQuery,
  actor_id: Type.Optional(Uuid('Of a person, an API key or an agent session')),
  action: Type.Optional(
    Text({ minLength: 1, maxLength: 100, description: 'As `members.update`. Calls of tools are listed with `tools.use` alone' }),
  ),
  subject_id: Type.Optional(Text({ minLength: 1, maxLength: 200 })),
  from: Type.Optional(Timestamp()),
  to: Type.Optional(Timestamp()),
})

export const AuditActor = Type.Object({
  kind: Enum(ACTOR_KINDS),
  id: Nullable(Uuid('Of a person, an API key or an agent session')),
  name: Nullable(Type.String({ description: 'Of a tool token: whose it is. Of an operator: the account. Of the service: which part' })),
})

export const AuditEvent = Type.Object(
  {
    id: Uuid(),
    created_at: Timestamp(),
    organization_id: Uuid(),
    project_id: Nullable(Uuid()),
    actor: AuditActor,
    action: Type.String({ description: 'The name of a route, or of one that would do the same' }),
    subject: Type.Object({ kind: Type.String(), id: Type.String() }),
    request_id: Nullable(Type.String()),
    source_address: Nullable(Type.String({ description: 'The other end of the connection' })),
    details: Type.Object({}, { additionalProperties: true, description: 'Never a secret' }),
    sequence: Nullable(Type.Integer({ description: 'Its place in the chain of its organization; null for a moment' })),
    sha256: Nullable(Type.String({ description: 'Its link: over itself and the link before' })),
  },
  { title: 'AuditEvent' },
)
export type AuditEvent = Static<typeof AuditEvent>
export const AuditEventList = List(AuditEvent, 'AuditEventList')

export const AuditExportQuery = Type.Object({
  after: Type.Optional(Type.Integer({ minimum: 0, default: 0, description: 'The sequence of the last record that is there already' })),
})
