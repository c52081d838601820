import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe } from '../../contract/openapi.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import type { Route } from '../../contract/route.ts'
import { DETAILS } from '../../contract/details.ts'
import { APP_CODES, APP_REASONS, CELL_CODES, CELL_REASONS } from '../../contract/errors.ts'
import { API_ROUTES, ANSWERS } from '../../service/api/routes.ts'
import { propertiesOf } from '../../service/http/checks.ts'
import { named } from '../support/pipeline-routes.ts'

const routes: readonly Route[] = [...APP_ROUTES, ...CELL_ROUTES]
const described = JSON.parse(JSON.stringify(describe(routes, '/')))

test('docs/openapi.json is the output of `npm run openapi`', () => {
  const written = JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'))
  assert.deepEqual(written, described)
})

test('the description is valid OpenAPI 3.1.0 of version 0.1.0', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(described))
  assert.ok(valid, JSON.stringify(errors))
  assert.deepEqual([described.openapi, described.info.version], ['3.1.0', '0.1.0'])
})

test('every declared route has its handler, and a handler whose answer has a token defines how a repeat is answered', () => {
  assert.deepEqual(API_ROUTES.map(({ route }) => route.id).sort(), APP_ROUTES.map(({ id }) => id).sort())
  assert.deepEqual(
    Object.keys(ANSWERS).sort(),
    APP_ROUTES.filter(({ idempotent, answers }) => idempotent && Object.values(answers).some(hasToken))
      .map(({ id }) => id)
      .sort(),
  )
})

test('every code and reason that a route declares belongs to its surface', () => {
  for (const route of routes) {
    const codes = route.surface === 'app' ? APP_CODES : CELL_CODES
    const known: Partial<Record<string, readonly string[]>> = route.surface === 'app' ? APP_REASONS : CELL_REASONS
    for (const [code, reasons] of Object.entries(route.errors)) {
      assert.ok(code in codes, `${route.id} ${code}`)
      assert.ok(reasons.length > 0, `${route.id} ${code} has neither a reason nor none`)
      for (const reason of reasons) assert.ok(reason === null || known[code]?.includes(reason), `${route.id} ${code} ${reason}`)
    }
  }
})

test('no text of an App request accepts NUL or a lone surrogate unless a handler refuses it', () => {
  const bare: string[] = []
  const walk = (schema: unknown, path: string): void => {
    if (schema === null || typeof schema !== 'object') return
    const { type, pattern, format, enum: words } = schema as Record<string, unknown>
    if (type === 'string' && pattern === undefined && format === undefined && words === undefined && !('const' in schema)) bare.push(path)
    for (const [name, inner] of Object.entries(schema)) walk(inner, `${path}/${name}`)
  }
  for (const route of APP_ROUTES) for (const part of [route.params, route.query, route.body]) walk(part, route.id)
  // Handlers of these routes refuse a bad value with their own reasons, because a pattern's refusal would echo the value.
  const VALUES = ['secrets.create', 'secrets.create_of_organization', 'secret-versions.create'].map((id) => `${id}/properties/value`)
  assert.deepEqual(bare.sort(), VALUES.sort())
})

test('a route with two paths is described at both, each with its own path parameters', () => {
  const { paths } = JSON.parse(JSON.stringify(describe([named], '/')))
  const at = (path: string) => paths[path].get
  const [short, long] = [at('/v1/named/{slug}'), at('/v1/organizations/{organization_id}/named/{slug}')]
  const inPath = ({ parameters }: { parameters: { in: string; name: string; required: boolean }[] }) =>
    parameters.filter((each) => each.in === 'path').map(({ name, required }) => [name, required])
  assert.deepEqual([short.operationId, inPath(short)], ['named.get', [['slug', true]]])
  const both = [['organization_id', true], ['slug', true]] // prettier-ignore
  assert.deepEqual([long.operationId, inPath(long)], ['named.get.of_organization', both])
})

test('the gateway describes each request header that its routes read', () => {
  const said = CELL_ROUTES.filter(({ headers }) => headers !== undefined).map(({ id, method, path }) => {
    const { parameters } = described.paths[path][method.toLowerCase()] as { parameters: { in: string; name: string }[] }
    return [id, parameters.filter((each) => each.in === 'header').map(({ name }) => name)]
  })
  assert.deepEqual(Object.fromEntries(said), {
    'files.read': ['Range'],
    'files.write': ['If-Match', 'Idempotency-Key'],
    'files.remove': ['If-Match'],
    'files.mkdir': ['If-Match'],
    'files.move': ['If-Match'],
    'files.patch': ['If-Match', 'Idempotency-Key'],
    'files.tar_write': ['If-Match'],
    'tree.restore': ['If-Match'],
    'git.clone': ['X-Git-Authorization'],
  })
})

test('every list has a next_cursor', () => {
  const properties = ({ answers }: Route) => propertiesOf(answers[200]?.schema) as Partial<Record<string, { type?: string }>>
  const lists = routes.filter((route) => properties(route)['data']?.type === 'array')
  assert.ok(lists.length > 20, `${lists.length}`)
  assert.deepEqual(
    lists.filter((route) => !('next_cursor' in properties(route))).map(({ id }) => id),
    [],
  )
})

test('an answer with several content types names each', () => {
  const content = (path: string, method: string) => Object.keys(described.paths[path][method].responses['200'].content)
  const workspace = '/v1/workspaces/{workspace_id}'
  assert.deepEqual(content(`${workspace}/exec/{session_id}/output`, 'get'), ['application/x-ndjson', 'text/event-stream'])
  assert.deepEqual(content(`${workspace}/browser/content`, 'post'), ['text/html', 'text/plain'])
})

test('every code describes each of its reasons with retryability and details', () => {
  const { app, cell } = described['x-error-codes']
  const retryable = Object.keys(app.conflict.reasons).filter((reason) => app.conflict.reasons[reason].retryable)
  const passing = ['operation_in_progress', 'workspace_not_running', 'build_in_progress', 'file_list_indexing', 'attach_in_progress', 'concurrent_rotation'] // prettier-ignore
  assert.deepEqual([app.conflict.retryable, retryable], [false, passing])
  assert.deepEqual(Object.keys(app.conflict.reasons), [...APP_REASONS.conflict])
  const { properties, required } = app.conflict.reasons.mode_mismatch.details
  assert.deepEqual(
    [Object.keys(properties), required],
    [
      ['reason', 'mode', 'requested_mode'],
      ['reason', 'mode', 'requested_mode'],
    ],
  )
  assert.deepEqual(Object.keys(cell.workspace_busy.details.properties), ['operation_kind', 'tool_gate'])
})

test('details are declared only for existing codes and reasons', () => {
  const known = { app: [APP_CODES, APP_REASONS], cell: [CELL_CODES, CELL_REASONS] } as const
  for (const surface of ['app', 'cell'] as const) {
    const [codes, reasons]: readonly [object, Partial<Record<string, readonly string[]>>] = known[surface]
    for (const refusal of Object.keys(DETAILS[surface])) {
      const [code = '', reason] = refusal.split('/')
      assert.ok(code in codes && (reason === undefined || reasons[code]?.includes(reason)), `${surface} ${refusal}`)
    }
  }
})

function hasToken({ schema }: { schema?: object }): boolean {
  return 'tool_token' in propertiesOf(schema)
}
