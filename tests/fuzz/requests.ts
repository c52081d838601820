import fc from 'fast-check'
import { generateSync, type JsonSchema } from 'json-schema-faker'
import type { Route } from '../../contract/route.ts'
import { sampleOf } from '../generated/samples.ts'

export interface Fuzzed {
  method: string
  path: string
  body: string | Uint8Array | undefined
  headers: Record<string, string>
}

const MEANT: Record<string, unknown> = { template: 'base', path: '/home/user/fuzz', from: '/home/user/fuzz', follow: false }

/** Like fast-check's unit `binary`, which first spends seconds on a map of all of Unicode. */
const CHARACTER = fc.integer({ min: 0, max: 0x10_ffff - 0x800 }).map((at) => String.fromCodePoint(at < 0xd800 ? at : at + 0x800))
const WEIRD = fc.oneof(
  fc.constantFrom<unknown>(null, '', 0, -1, 1e308, 2 ** 53, true, [], {}, '\u0000', '\ud800', '__proto__', '../..', '%00', 'x'.repeat(500)),
  fc.string({ unit: CHARACTER, maxLength: 40 }),
  fc.jsonValue({ maxDepth: 3 }),
)
const HEADERS = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Record<string, string>>({}) },
  {
    weight: 1,
    arbitrary: fc.record(
      {
        'idempotency-key': fc.string({ unit: 'binary-ascii', maxLength: 300 }).map((text) => text.replaceAll(/[^\t\x20-\x7e]/g, '')),
        'x-request-id': fc.string({ unit: fc.constantFrom('a', '.', '<', ' ', 'Z'), maxLength: 70 }),
        prefer: fc.constantFrom('wait=0', 'wait=', 'wait=x', 'respond-async', ',,,'),
        'content-type': fc.constantFrom('text/plain', 'application/json; charset=utf-16', 'application/json;', ''),
        range: fc.constantFrom('bytes=0-1', 'bytes=-1', 'bytes=5-1', 'lines=1-2', 'bytes=0-99999999999999999999'),
        accept: fc.constantFrom('text/event-stream', '*/*', ''),
      },
      { requiredKeys: [] },
    ),
  },
)

const CHANGE = fc.record({
  part: fc.constantFrom('params' as const, 'query' as const, 'body' as const, 'raw' as const),
  at: fc.nat(),
  how: fc.constantFrom('replace' as const, 'remove' as const, 'add' as const),
  value: WEIRD,
})

/** Half of the requests are valid by the schemas, half have a change. `ids` exist. */
export function requestsOf(route: Route, ids: Record<string, string>): fc.Arbitrary<Fuzzed> {
  return fc
    .record({ seed: fc.nat(), change: fc.option(CHANGE, { nil: null }), headers: HEADERS, meant: fc.boolean() })
    .map(({ seed, change, headers, meant }) => {
      const made = (schema: unknown): Record<string, unknown> =>
        schema === undefined
          ? {}
          : { ...(generateSync(schema as JsonSchema, { seed, optionalsProbability: 0.5 }) as object), ...meantOf(schema, meant) }
      const params = { ...made(route.params), ...ids }
      const query = made(route.query)
      let body: unknown = typeof route.body === 'object' ? made(route.body) : undefined
      if (change?.part === 'params') alter(params, change)
      if (change?.part === 'query') alter(query, change)
      if (change?.part === 'body') body = alter(body ?? {}, change)
      const sent =
        change?.part === 'raw'
          ? typeof change.value === 'string'
            ? change.value
            : JSON.stringify(change.value)
          : body === undefined
            ? undefined
            : JSON.stringify(body)
      const { method } = sampleOf(route)
      const reads = method !== 'GET'
      return {
        method,
        path: pathOf(route, params, query),
        body: !reads ? undefined : route.body === 'bytes' ? Buffer.from(sent ?? 'bytes') : sent,
        headers: { ...(reads && sent !== undefined ? { 'content-type': 'application/json' } : {}), ...headers },
      }
    })
}

function meantOf(schema: unknown, meant: boolean): Record<string, unknown> {
  const { properties = {} } = schema as { properties?: object }
  return Object.fromEntries(Object.entries(MEANT).filter(([name]) => name in properties && (meant || name === 'follow')))
}

function alter(object: unknown, { at, how, value }: { at: number; how: 'replace' | 'remove' | 'add'; value: unknown }): unknown {
  if (object === null || typeof object !== 'object' || how === 'add') {
    if (object !== null && typeof object === 'object') (object as Record<string, unknown>)[`added${at % 3}`] = value
    return object
  }
  const names = Object.keys(object)
  const name = names[at % Math.max(1, names.length)]
  if (name === undefined) return value
  const inner = (object as Record<string, unknown>)[name]
  if (inner !== null && typeof inner === 'object' && at % 2 === 0)
    return alter(inner, { at: at >> 1, how, value }) === inner ? object : object
  if (how === 'remove') Reflect.deleteProperty(object, name)
  else (object as Record<string, unknown>)[name] = value
  return object
}

function pathOf(route: Route, params: Record<string, unknown>, query: Record<string, unknown>): string {
  const text = (value: unknown) => encodeURIComponent((typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed())
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => text(params[name] ?? '') || 'x')
  const search = Object.entries(query).map(([name, value]) => `${text(name)}=${text(value)}`)
  return search.length === 0 ? path : `${path}?${search.join('&')}`
}
