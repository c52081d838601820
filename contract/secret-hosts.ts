import { EGRESS_PORTS_DEFAULT } from './egress/policy.ts'
import { normalHost } from './egress/hosts.ts'
import type { Issue } from './schemas/error.ts'
import type { NormalSecretHost, SecretHost } from './schemas/secrets.ts'

const PLACES = ['header', 'bearer', 'basic_user', 'query'] as const

/** A secret in one of these headers would change the framing or routing of the request. */
const MESSAGE_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/

export function isHeaderValue(value: string): boolean {
  return HEADER_VALUE.test(value)
}

export function hostIssues(hosts: readonly SecretHost[]): Issue[] {
  return hosts.flatMap((one, at) => issuesOf(`hosts.${at}`, one))
}

export function normalHosts(hosts: readonly SecretHost[]): NormalSecretHost[] {
  return hosts.map(({ host, ports = EGRESS_PORTS_DEFAULT, ...place }) => {
    const normal = normalHost(host)
    if ('reason' in normal) throw new Error('hosts were not checked before they were normalized')
    return { host: normal.host, ports: [...ports].sort((a, b) => a - b), ...place }
  })
}

function issuesOf(path: string, one: SecretHost): Issue[] {
  const normal = normalHost(one.host)
  const places = PLACES.filter((place) => one[place] !== undefined)
  const found: Issue[] = []
  if ('reason' in normal) found.push({ path: `${path}.host`, reason: normal.reason, message: normal.message })
  if (places.length > 1) found.push({ path, reason: 'one_place', message: `must have one of ${places.join(', ')}` })
  if (one.header !== undefined && MESSAGE_HEADERS.has(one.header.toLowerCase()))
    found.push({
      path: `${path}.header`,
      reason: 'message_header',
      message: 'says where a message ends or goes: it is no place for a value',
    })
  if (one.basic_user?.includes(':') === true || /[\x00-\x1f\x7f]/.test(one.basic_user ?? ''))
    found.push({ path: `${path}.basic_user`, reason: 'invalid_user', message: 'must have neither a colon nor a control character' })
  return found
}
