import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe } from '../../contract/openapi.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import type { Route } from '../../contract/route.ts'
import { APP_CODES, APP_REASONS, CELL_CODES, CELL_REASONS } from '../../contract/errors.ts'
import { API_ROUTES, ANSWERS } from '../../service/api/routes.ts'

const routes: readonly Route[] = [...APP_ROUTES, ...CELL_ROUTES]
const described = JSON.parse(JSON.stringify(describe(routes, '/')))

test('docs/openapi.json is what `npm run openapi` writes', () => {
  const written = JSON.parse(readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'))
  assert.deepEqual(written, described)
})

test('the description is valid OpenAPI 3.1.0 of version 0.1.0', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(described))
  assert.ok(valid, JSON.stringify(errors))
  assert.deepEqual([described.openapi, described.info.version], ['3.1.0', '0.1.0'])
})

test('every declared route has its handler, and every idempotent one says how a repeat is answered', () => {
  assert.deepEqual(API_ROUTES.map(({ route }) => route.id).sort(), APP_ROUTES.map(({ id }) => id).sort())
  assert.deepEqual(
    Object.keys(ANSWERS).sort(),
    APP_ROUTES.filter(({ idempotent }) => idempotent)
      .map(({ id }) => id)
      .sort(),
  )
})

test('every code and reason that a route declares is one of its surface', () => {
  for (const route of routes) {
    const codes = route.surface === 'app' ? APP_CODES : CELL_CODES
    const known: Partial<Record<string, readonly string[]>> = route.surface === 'app' ? APP_REASONS : CELL_REASONS
    for (const [code, reasons] of Object.entries(route.errors)) {
      assert.ok(code in codes, `${route.id} ${code}`)
      for (const reason of reasons) assert.ok(reason === null || known[code]?.includes(reason), `${route.id} ${code} ${reason}`)
    }
  }
})

test('no text of an App request can carry NUL or a lone surrogate unseen', () => {
  const bare: string[] = []
  const walk = (schema: unknown, path: string): void => {
    if (schema === null || typeof schema !== 'object') return
    const { type, pattern, format, enum: words } = schema as Record<string, unknown>
    if (type === 'string' && pattern === undefined && format === undefined && words === undefined && !('const' in schema)) bare.push(path)
    for (const [name, inner] of Object.entries(schema)) walk(inner, `${path}/${name}`)
  }
  for (const route of APP_ROUTES) for (const part of [route.params, route.query, route.body]) walk(part, route.id)
  assert.deepEqual(bare, [])
})
