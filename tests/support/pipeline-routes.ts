// Routes of no product: the pipeline's own tests serve them.
import Type from 'typebox'
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
  auth: 'principal',
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
  errors: { not_found: [] },
})
export const bare = appRoute({
  id: 'bare.delete',
  method: 'DELETE',
  path: '/v1/bare',
  summary: 'no body',
  auth: 'principal',
  answers: { 200: { description, schema: Type.Object({ ok: Type.Literal(true) }) } },
  errors: {},
})
export const get = appRoute({
  id: 'bare.get',
  method: 'GET',
  path: '/v1/bare',
  summary: 'reads',
  auth: 'none',
  answers: { 200: { description, schema: Type.Object({ ok: Type.Literal(true) }) } },
  errors: { conflict: ['not_running'] },
})
export const broken = appRoute({
  id: 'broken.get',
  method: 'GET',
  path: '/v1/broken',
  summary: 'breaks',
  auth: 'none',
  query: Type.Object({ how: Type.Optional(Type.String()) }),
  answers: { 200: { description, schema: Type.Object({ ok: Type.Boolean() }) } },
  errors: { dependency_unavailable: [] },
})
export const cellPost = cellRoute({
  id: 'exec.start',
  method: 'POST',
  path: '/v1/echo',
  summary: 'cell',
  auth: 'tool_token',
  query: Type.Object({ n: Type.Optional(Type.Integer()) }),
  body: Echo,
  answers: { 200: { description } },
  errors: {},
})
export const cellStream = cellRoute({
  id: 'exec.output',
  method: 'GET',
  path: '/v1/stream',
  summary: 'cell',
  auth: 'tool_token',
  answers: { 200: { description } },
  errors: {},
})
