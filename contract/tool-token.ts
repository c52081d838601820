import Type, { type Static } from 'typebox'
import { TOOLS, type Tool } from './route.ts'

/** The type distinguishes tool tokens from other JWTs that the same key may have signed. */
export const TOOL_TOKEN_TYPE = 'berth-tool+jwt'
export const TOOL_TOKEN_ALGORITHM = 'ES256'

const uuid = () => Type.String({ format: 'uuid' })

/** See the specification (App, "Tool token"). The header is exactly {alg, typ, kid}. */
export const ToolTokenClaims = Type.Object(
  {
    iss: Type.String({ description: 'Address of the application API that issued it' }),
    aud: Type.String({ description: 'cell_endpoint of the workspace: no other gateway accepts it' }),
    sub: uuid(), // the principal
    pty: Type.Unsafe<'api_key' | 'user'>({ type: 'string', enum: ['api_key', 'user'] }),
    org: uuid(),
    prj: uuid(),
    ws: uuid(),
    epoch: Type.Integer({ minimum: 0 }),
    tools: Type.Array(Type.Unsafe<Tool>({ type: 'string', enum: [...TOOLS] }), { minItems: 1, uniqueItems: true }),
    sid: uuid(), // the agent session
    iat: Type.Integer(),
    exp: Type.Integer(),
    jti: Type.String({ description: 'Of a person: the session that it was made in, a dot, and its own id' }),
  },
  { additionalProperties: false },
)
export type ToolTokenClaims = Static<typeof ToolTokenClaims>
