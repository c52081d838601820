import Type from 'typebox'
import { DETAILS, detailsOf } from './details.ts'
import { APP_CODES, APP_REASONS, CELL_CODES, CELL_REASONS, isRetryable, type CodeRule, type Surface } from './errors.ts'
import { LIMITS } from './limits.ts'
import { errorsOf } from './route-errors.ts'
import { contentOf, isReadOnly, namesIn, pathsOf, type Answer, type CellRoute, type Route } from './route.ts'
import { ErrorEnvelope } from './schemas/error.ts'
import { MODES } from './schemas/workspaces.ts'

type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined }
type JsonObject = { [name: string]: Json | undefined }

const VERSION = '0.1.0' // App, "Versioning" 3

/** Schemas with a title become components. */
export function describe(routes: readonly Route[], base_url: string): JsonObject {
  const components = new Map<string, Json>()
  const schemaOf = (schema: unknown) => hoist(schema as Json, components)
  const paths: Record<string, JsonObject> = {}
  for (const route of routes) {
    const method = route.method.toLowerCase()
    for (const at of pathsOf(route)) {
      const path = (paths[at.path] ??= {})
      if (path[method] !== undefined) throw new Error(`${route.method} ${at.path} is declared twice`)
      path[method] = operationOf(route, at, schemaOf)
    }
  }
  schemaOf(ErrorEnvelope)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Berth',
      version: VERSION,
      description:
        'Isolated, durable workspaces for AI agents and people. Errors come in one envelope with closed sets of codes and reasons.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: base_url }],
    tags: [
      { name: 'app', description: 'The application API' },
      { name: 'cell', description: "The gateway of a workspace's cell, served at its `cell_endpoint`" },
    ],
    paths: paths,
    components: {
      schemas: Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))),
      responses: { ...refusalsFor('app', APP_CODES), ...refusalsFor('cell', CELL_CODES) },
      parameters: SHARED_PARAMETERS,
      headers: Object.fromEntries(
        Object.entries(SHARED_HEADERS).map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
      ),
      securitySchemes: {
        principal: {
          type: 'http',
          scheme: 'bearer',
          description: "A project API key `sfk_<key_id>_<secret>`, or a person's session `sfu_<token>`",
        },
        tool_token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'A tool token of the application API' },
      },
    },
    'x-error-codes': { app: codesOf('app', APP_CODES, APP_REASONS), cell: codesOf('cell', CELL_CODES, CELL_REASONS) },
  }
}

type SchemaOf = (schema: unknown) => Json

function operationOf(route: Route, at: { name: string; path: string }, schemaOf: SchemaOf): JsonObject {
  return {
    operationId: `${route.surface === 'cell' ? 'cell.' : ''}${at.name}`,
    summary: route.summary,
    tags: [route.surface],
    ...(route.surface === 'cell'
      ? { servers: [{ url: '{cell_endpoint}', variables: { cell_endpoint: { default: 'http://127.0.0.1' } } }] }
      : {}),
    security: route.access.kind === 'anyone' ? [] : [{ [route.access.kind]: [] }],
    'x-access': { ...route.access } as JsonObject,
    parameters: [
      ...parametersOf('path', paramsAt(route, at.path), schemaOf),
      ...parametersOf('query', route.query, schemaOf),
      ...headersOf(route, schemaOf),
    ],
    ...bodyOf(route, schemaOf),
    responses: { ...answersOf(route, schemaOf), ...refusalsOf(route) },
    ...(route.surface === 'cell' ? { 'x-workspace': useOf(route) } : {}),
    'x-errors': errorsOf(route),
    ...(route.websocket === undefined
      ? {}
      : { 'x-websocket': { client: schemaOf(route.websocket.client), server: schemaOf(route.websocket.server) } }),
  }
}

function useOf(route: CellRoute): JsonObject {
  const { modes, machine, streams = false, reads_disk = false } = route
  return { modes: [...(modes ?? MODES)], machine: machine ?? null, read_only: isReadOnly(route), streams, reads_disk }
}

function paramsAt({ params }: Route, path: string): unknown {
  const { properties = {} } = (params ?? {}) as { properties?: Record<string, unknown> }
  const required = namesIn(path)
  return { properties: Object.fromEntries(Object.entries(properties).filter(([name]) => required.includes(name))), required }
}

function parametersOf(where: 'path' | 'query' | 'header', schema: unknown, schemaOf: SchemaOf): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, { description?: string }>
    required?: string[]
  }
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...rest } = property
    return {
      name,
      in: where,
      required: required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: schemaOf(rest),
    }
  })
}

const { characters_min: REQUEST_ID_MIN, characters_max: REQUEST_ID_MAX } = LIMITS.request_id

const SHARED_PARAMETERS = {
  'X-Request-Id': headerParameter('X-Request-Id', 'Comes back with the answer', {
    type: 'string',
    pattern: `^[A-Za-z0-9._-]{${REQUEST_ID_MIN},${REQUEST_ID_MAX}}$`,
  }),
  'Idempotency-Key': headerParameter('Idempotency-Key', 'The same key with the same request has one effect, for 24 hours', {
    type: 'string',
    pattern: `^[\\x21-\\x7e]{1,${LIMITS.idempotency.key_characters_max}}$`,
  }),
  Prefer: headerParameter('Prefer', `wait=<seconds>, at most ${LIMITS.wait.seconds_max}: hold the answer`, { type: 'string' }),
}

function headerParameter(name: string, description: string, schema: JsonObject): JsonObject {
  return { name, in: 'header', required: false, description, schema }
}

function headersOf(route: Route, schemaOf: SchemaOf): Json[] {
  const shared = (name: keyof typeof SHARED_PARAMETERS): Json => ({ $ref: `#/components/parameters/${name}` })
  return [
    shared('X-Request-Id'),
    ...(route.idempotent ? [shared('Idempotency-Key')] : []),
    ...(route.waits ? [shared('Prefer')] : []),
    ...parametersOf('header', route.headers, schemaOf),
  ]
}

function bodyOf(route: Route, schemaOf: SchemaOf): JsonObject {
  if (route.body === undefined) return {}
  if (route.body === 'bytes') return { requestBody: { required: true, content: { 'application/octet-stream': { schema: {} } } } }
  return { requestBody: { required: route.body_optional !== true, content: { 'application/json': { schema: schemaOf(route.body) } } } }
}

function answersOf(route: Route, schemaOf: SchemaOf): JsonObject {
  return Object.fromEntries(
    Object.entries(route.answers).map(([status, answer]) => [status, answerOf(answer, schemaOf, route.idempotent === true)]),
  )
}

const SHARED_HEADERS: Readonly<Record<string, string>> = {
  'X-Request-Id': 'The id of this request',
  'Cache-Control': 'no-store',
  'Idempotent-Replayed': 'true, exactly when this is the answer of an earlier request with the same Idempotency-Key',
}

function answerOf(answer: Answer, schemaOf: SchemaOf, is_idempotent: boolean): JsonObject {
  const content = Object.entries(contentOf(answer)).map(([type, schema]) => [type, { schema: schema === null ? {} : schemaOf(schema) }])
  const shared = ['X-Request-Id', 'Cache-Control', ...(is_idempotent ? ['Idempotent-Replayed'] : [])]
  const own = Object.entries(answer.headers ?? {}).map(([name, description]) => [name, { description, schema: { type: 'string' } }])
  return {
    description: answer.description,
    headers: {
      ...Object.fromEntries(shared.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
      ...(Object.fromEntries(own) as JsonObject),
    },
    ...(content.length === 0 ? {} : { content: Object.fromEntries(content) as JsonObject }),
  }
}

/** `x-errors` lists the codes and reasons that the route itself can answer. */
function refusalsOf(route: Route): JsonObject {
  const rules: Record<string, CodeRule> = route.surface === 'app' ? APP_CODES : CELL_CODES
  const statuses = Object.keys(errorsOf(route)).map((code) => {
    const status = rules[code]?.status
    if (status === undefined) throw new Error(`${route.id} declares ${code}, which is no code of its surface`)
    return status
  })
  return Object.fromEntries(
    [...new Set(statuses)].map((status) => [String(status), { $ref: `#/components/responses/${refusalName(route.surface, status)}` }]),
  )
}

function refusalName(surface: Surface, status: number): string {
  return `${surface}_error_${status}`
}

function refusalsFor(surface: Surface, codes: Readonly<Record<string, CodeRule>>): JsonObject {
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/ErrorEnvelope' } } }
  const by_status = new Map<number, string[]>()
  for (const [code, { status }] of Object.entries(codes)) by_status.set(status, [...(by_status.get(status) ?? []), `\`${code}\``])
  return Object.fromEntries(
    [...by_status].map(([status, named]) => [
      refusalName(surface, status),
      { description: `${named.join(' or ')}: see x-errors of the operation for the reasons`, content },
    ]),
  )
}

function hoist(schema: Json, components: Map<string, Json>): Json {
  if (Array.isArray(schema)) return schema.map((inner) => hoist(inner, components))
  if (schema === null || typeof schema !== 'object') return schema
  const { title, ...rest } = schema
  const body = Object.fromEntries(Object.entries(rest).map(([name, inner]) => [name, hoist(inner as Json, components)]))
  if (typeof title !== 'string') return body
  const known = components.get(title)
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(body)) throw new Error(`two schemas have the title ${title}`)
  components.set(title, body)
  return { $ref: `#/components/schemas/${title}` }
}

/** A reason without details of its own has the details of its code. */
function codesOf(surface: Surface, codes: Record<string, CodeRule>, reasons: Partial<Record<string, readonly string[]>>): JsonObject {
  const told = (code: string, reason: string | null): JsonObject => ({
    retryable: isRetryable(surface, code, reason),
    ...(reason !== null && !(`${code}/${reason}` in DETAILS[surface]) ? {} : { details: detailsSchema(surface, code, reason) }),
  })
  return Object.fromEntries(
    Object.entries(codes).map(([code, { status }]) => [
      code,
      {
        status,
        ...told(code, null),
        reasons: Object.fromEntries((reasons[code] ?? []).map((reason) => [reason, told(code, reason)])),
      },
    ]),
  )
}

function detailsSchema(surface: Surface, code: string, reason: string | null): Json {
  const words = reason === null ? {} : { reason: Type.Literal(reason) }
  const schema = Type.Object({ ...words, ...detailsOf(surface, code, reason) }, { additionalProperties: true })
  return JSON.parse(JSON.stringify(schema)) as Json
}
