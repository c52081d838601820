import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { TOOLS } from '../tools.ts'
import { FreeText, List, PageQuery, strict, Timestamp, Uuid, Enum } from './common.ts'

export const AgentLabel = FreeText({
  minLength: 1,
  maxLength: LIMITS.workspace.agent_label_characters_max,
  description: 'Names the agent session; `default` when absent',
})
export const Tools = Type.Array(Enum(TOOLS), {
  minItems: 1,
  maxItems: TOOLS.length,
  uniqueItems: true,
  description:
    'Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip',
})

export const ToolTokenRequest = Type.Object({ agent_label: Type.Optional(AgentLabel), tools: Type.Optional(Tools) }, strict)
export type ToolTokenRequest = Static<typeof ToolTokenRequest>

/** See the specification (App, "Tool token"). */
export const ToolToken = Type.Object(
  {
    token: Type.String(),
    token_type: Type.Literal('Bearer'),
    issued_at: Timestamp(),
    expires_at: Timestamp(),
    workspace_id: Uuid(),
    agent_session_id: Uuid(),
    ownership_epoch: Type.Integer(),
    tools: Type.Array(Enum(TOOLS)),
    audience: Type.String(),
    kid: Type.String(),
    cell_endpoint: Type.String(),
  },
  { title: 'ToolToken' },
)
export type ToolToken = Static<typeof ToolToken>

/** See the specification (App, "Agent session"). */
export const AgentSession = Type.Object(
  {
    id: Uuid(),
    workspace_id: Uuid(),
    agent_label: Type.String(),
    principal: Type.Object({ type: Enum(['user', 'api_key']), id: Uuid() }),
    created_at: Timestamp(),
    last_used_at: Timestamp(),
  },
  { title: 'AgentSession' },
)
export type AgentSession = Static<typeof AgentSession>
export const AgentSessionList = List(AgentSession, 'AgentSessionList')
export const AgentSessionQuery = Type.Object({ ...PageQuery })

/** A JSON Web Key Set (RFC 7517). */
export const ToolTokenKeys = Type.Object(
  {
    keys: Type.Array(
      Type.Object({
        kty: Type.Literal('EC'),
        crv: Type.Literal('P-256'),
        x: Type.String(),
        y: Type.String(),
        kid: Type.String(),
        alg: Type.Literal('ES256'),
        use: Type.Literal('sig'),
      }),
    ),
  },
  { title: 'ToolTokenKeys' },
)
export type ToolTokenKeys = Static<typeof ToolTokenKeys>
