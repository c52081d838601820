import Type from 'typebox'
import { ANYONE, readers, ROLES, toolToken } from '../../contract/access.ts'
import { NO_REASON } from '../../contract/errors.ts'
import { appRoute, cellRoute } from '../../contract/route.ts'
const Echo = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 10, pattern: '^[^\\p{Cc}\\p{Cs}]*$' }),
    caps: Type.Optional(Type.Object({ cpu_millis: Type.Optional(Type.Integer()) }, { additionalProperties: false })),
  },
  { additionalProperties: false },
)
const description = 'an answer'

export const post = appRoute({
  id: 'echo.post',
  method: 'POST',
  path: '/v1/echo/{id}',
  summary: 'echoes',
  access: readers('self'),
  idempotent: true,
  waits: true,
  params: Type.Object({ id: Type.String({ format: 'uuid' }) }),
  query: Type.Object({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
    flag: Type.Optional(Type.Boolean()),
  }),
  body: Echo,
  body_bytes_max: 2000,
  answers: { 200: { description, schema: Type.Object({ body: Echo, limit: Type.Integer(), wait: Type.Integer() }) } },
  errors: { not_found: NO_REASON },
})
export const bare = appRoute({
  id: 'bare.delete',
  method: 'DELETE',
  path: '/v1/bare',
  summary: 'no body',
  access: readers('self'),
  answers: { 200: { description, schema: Type.Object({ ok: Type.Literal(true) }) } },
  errors: {},
})
export const get = appRoute({
  id: 'bare.get',
  method: 'GET',
  path: '/v1/bare',
  summary: 'reads',
  access: ANYONE,
  answers: { 200: { description, schema: Type.Object({ ok: Type.Literal(true) }) } },
  errors: { conflict: ['not_running'] },
})
export const broken = appRoute({
  id: 'broken.get',
  method: 'GET',
  path: '/v1/broken',
  summary: 'breaks',
  access: ANYONE,
  query: Type.Object({ how: Type.Optional(Type.String()) }),
  answers: { 200: { description, schema: Type.Object({ ok: Type.Boolean() }) } },
  errors: { dependency_unavailable: NO_REASON },
})
export const cellPost = cellRoute({
  id: 'exec.start',
  method: 'POST',
  path: '/v1/echo',
  summary: 'cell',
  access: toolToken('any'),
  query: Type.Object({ n: Type.Optional(Type.Integer()) }),
  body: Echo,
  answers: { 200: { description } },
  errors: {},
})
export const named = appRoute({
  id: 'named.get',
  method: 'GET',
  path: '/v1/named/{slug}',
  aliases: { of_organization: '/v1/organizations/{organization_id}/named/{slug}' },
  summary: 'two paths',
  access: readers('self'),
  params: Type.Object({ organization_id: Type.Optional(Type.String({ format: 'uuid' })), slug: Type.String({ maxLength: 10 }) }),
  answers: { 200: { description, schema: Type.Object({ organization_id: Type.Optional(Type.String()), slug: Type.String() }) } },
  errors: { not_found: NO_REASON, conflict: ['mode_mismatch'] },
})
const answers = { 200: { description, schema: Type.Object({ ok: Type.Literal(true) }) } }
const Project = Type.Object({ project_id: Type.String({ format: 'uuid' }) })
export const sensitive = appRoute({
  id: 'sensitive.post',
  method: 'POST',
  path: '/v1/projects/{project_id}/sensitive',
  summary: 'owners and admins, stepped up',
  access: { kind: 'principal', within: 'project', roles: ['owner', 'admin'], keys: 'forbidden', step_up: true },
  params: Project,
  answers,
  errors: { not_found: NO_REASON },
})
export const managed = appRoute({
  id: 'managed.put',
  method: 'PUT',
  path: '/v1/projects/{project_id}/managed',
  summary: 'owners, admins and keys with a tool',
  access: { kind: 'principal', within: 'project', roles: ['owner', 'admin'], keys: 'with_tool' },
  params: Project,
  answers,
  errors: { not_found: NO_REASON },
})
export const signIn = appRoute({
  id: 'session.get',
  method: 'GET',
  path: '/v1/auth/session',
  summary: 'a session, of whomever',
  access: { kind: 'principal', within: 'self', roles: ROLES, keys: 'unknown' },
  answers,
  errors: {},
})
export const typed = cellRoute({
  id: 'typed.get',
  method: 'GET',
  path: '/v1/typed',
  summary: 'cell',
  access: toolToken('any'),
  query: Type.Object({ type: Type.String(), status: Type.Optional(Type.Integer({ default: 200 })) }),
  answers: { 200: { description, content: { 'text/html': null, 'text/plain': null } } },
  errors: {},
})
export const cellStream = cellRoute({
  id: 'exec.output',
  method: 'GET',
  path: '/v1/stream',
  summary: 'cell',
  access: toolToken('any'),
  answers: { 200: { description, content: { 'application/x-ndjson': null } } },
  errors: {},
})
