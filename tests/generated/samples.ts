import type { Route } from '../../contract/route.ts'

interface Schema {
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  format?: string
  pattern?: string
  minLength?: number
  minItems?: number
  minimum?: number
  items?: Schema
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
}

const NAMED: Record<string, unknown> = {
  password: 'a sample that nobody guesses', // the service refuses common passwords
  new_password: 'a sample that nobody guesses',
  template: 'base',
  path: '/home/user/sample',
  from: '/home/user/sample',
  to: '/home/user/moved',
  argv: ['true'],
  signal: 'SIGTERM',
  url: 'https://git.test/sample.git',
  against: '1',
  session_id: 'sample',
  execution_id: 'sample-1',
  pid: '2',
  idle_policy: 'never',
  mount_path: '/home/user/sample',
  email: 'sample@example.com',
  role: 'member',
  new_email: 'sample@example.com',
}
/** Fields that a body needs, although its schema makes each optional. */
const NEEDED: Record<string, object> = { 'files.patch': { content: 'text' } }
const ID = '018f0000-0000-7000-8000-000000000001'
const WORDS = ['sample', 'never', '0644', 'a'.repeat(64), '/home/user/sample', 'SIGTERM', 'QQ==']

/** @returns the smallest value that a schema accepts. Throws if it finds none. */
export function sample(schema: unknown, name = ''): unknown {
  const of = schema as Schema
  if (Object.hasOwn(NAMED, name)) return NAMED[name]
  if (of.enum) return of.enum[0]
  if ('const' in of) return of.const
  if (of.anyOf) return sample(of.anyOf[0], name)
  switch (Array.isArray(of.type) ? of.type[0] : of.type) {
    case 'object':
      return Object.fromEntries((of.required ?? []).map((property) => [property, sample(of.properties?.[property], property)]))
    case 'array':
      return Array.from({ length: of.minItems ?? 0 }, () => sample(of.items))
    case 'integer':
    case 'number':
      return of.default ?? of.minimum ?? 0
    case 'boolean':
      return of.default ?? false
    case 'string':
      return text(of, name)
    default:
      throw new Error(`there is no sample of ${name}: ${JSON.stringify(schema)}`)
  }
}

function text({ format, pattern, minLength = 0 }: Schema, name: string): string {
  if (format === 'uuid') return ID
  if (format === 'date-time') return '2026-01-01T00:00:00.000Z'
  const found = WORDS.find((word) => word.length >= minLength && (pattern === undefined || new RegExp(pattern, 'u').test(word)))
  if (found === undefined) throw new Error(`no word fits ${name}: ${pattern ?? ''}`)
  return found
}

export interface Sampled {
  method: string
  path: string
  json?: unknown
  bytes?: Uint8Array
}

export function sampleOf(route: Route, ids: Record<string, string> = {}, body?: object): Sampled {
  const params = { ...(route.params === undefined ? {} : (sample(route.params) as Record<string, string>)), ...ids }
  const query = route.query === undefined ? {} : (sample(route.query) as Record<string, unknown>)
  const search = new URLSearchParams(Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])).toString()
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => params[name] ?? ID) + (search === '' ? '' : `?${search}`)
  if (route.body === 'bytes') return { method: route.method, path, bytes: Buffer.from('bytes') }
  if (route.body === undefined) return { method: route.method, path }
  return { method: route.method, path, json: { ...(sample(route.body) as object), ...NEEDED[route.id], ...body } }
}

/** Names of a path's ids, without ports, which are public, and without slugs of templates that the route creates. */
export function idsOf(route: Route): string[] {
  const known = /^(template-builds|drafts)\.create/.test(route.id) ? ['slug'] : ['port']
  return [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '').filter((name) => !known.includes(name))
}
