import { LIMITS } from '../limits.ts'
import type { Issue } from '../schemas/error.ts'
import { normalCidr } from './cidrs.ts'
import { normalHost } from './hosts.ts'
import { EGRESS_MODES, EGRESS_PORTS_DEFAULT, type EgressPolicy, type EgressPolicyInput, type EgressRule } from './policy.ts'

type Found = Issue & { reason: string }

/** A body for which no issue is returned is an `EgressPolicyInput`. */
export function policyIssues(body: unknown): Found[] {
  if (!isObject(body)) return [issue('', 'invalid_type', 'must be an object')]
  const { mode, rules, cidrs } = body
  return [
    ...unknownNames('', body, ['mode', 'rules', 'cidrs']),
    ...modeIssues(mode),
    ...listIssues('rules', rules, LIMITS.egress.rules_max, mode, ruleIssues),
    ...listIssues('cidrs', cidrs, LIMITS.egress.cidrs_max, mode, cidrIssues),
  ]
}

/** Requires a body without issues. */
export function normalPolicy({ mode, rules = [], cidrs = [] }: EgressPolicyInput): EgressPolicy {
  return {
    mode,
    rules: different(
      rules.map(({ host, ports = EGRESS_PORTS_DEFAULT }) => {
        const normal = normalHost(host)
        if ('reason' in normal) throw new Error('a policy was not checked before it was normalized')
        return { host: normal.host, ports: [...new Set(ports)], protocols: ['tcp'] }
      }),
    ),
    cidrs: [
      ...new Set(
        cidrs.map((given) => {
          const normal = normalCidr(given)
          if ('reason' in normal) throw new Error('a policy was not checked before it was normalized')
          return normal.cidr
        }),
      ),
    ],
  }
}

function different(rules: EgressRule[]): EgressRule[] {
  const nameOf = ({ host, ports }: EgressRule) => `${host} ${ports.toSorted((a, b) => a - b).join()}`
  return [...new Map(rules.map((rule) => [nameOf(rule), rule])).values()]
}

function modeIssues(mode: unknown): Found[] {
  if (mode === undefined) return [issue('mode', 'required', 'is required')]
  if (EGRESS_MODES.some((known) => known === mode)) return []
  return [issue('mode', 'invalid_mode', `must be one of ${EGRESS_MODES.join(', ')}`)]
}

function listIssues(path: 'rules' | 'cidrs', list: unknown, most: number, mode: unknown, each: (path: string, one: unknown) => Found[]) {
  if (list === undefined) return []
  if (!Array.isArray(list)) return [issue(path, 'invalid_type', 'must be a list')]
  const misplaced = list.length > 0 && (mode === 'allow_all' || mode === 'deny_all')
  return [
    ...(misplaced ? [issue(path, 'not_allowed_for_mode', 'goes with the mode allowlist alone')] : []),
    ...(list.length > most ? [issue(path, 'too_many', `must not have more than ${most}`)] : []),
    ...list.slice(0, most).flatMap((one, at) => each(`${path}.${at}`, one)),
  ]
}

function ruleIssues(path: string, rule: unknown): Found[] {
  if (!isObject(rule)) return [issue(path, 'invalid_type', 'must be an object')]
  const { host, ports, protocols } = rule
  return [
    ...unknownNames(`${path}.`, rule, ['host', 'ports', 'protocols']),
    ...hostIssues(`${path}.host`, host),
    ...portsIssues(`${path}.ports`, ports),
    ...protocolIssues(`${path}.protocols`, protocols),
  ]
}

function hostIssues(path: string, host: unknown): Found[] {
  if (host === undefined) return [issue(path, 'required', 'is required')]
  if (typeof host !== 'string') return [issue(path, 'invalid_type', 'must be text')]
  if (host.length > LIMITS.egress.host_characters_max)
    return [issue(path, 'invalid_host', `must not have more than ${LIMITS.egress.host_characters_max} characters`)]
  const normal = normalHost(host)
  return 'reason' in normal ? [issue(path, normal.reason, normal.message)] : []
}

function portsIssues(path: string, ports: unknown): Found[] {
  if (ports === undefined) return []
  const most = LIMITS.egress.ports_max
  if (!Array.isArray(ports)) return [issue(path, 'invalid_type', 'must be a list')]
  if (ports.length === 0 || ports.length > most)
    return [issue(path, ports.length === 0 ? 'too_few' : 'too_many', `must have 1 to ${most} ports`)]
  return ports.flatMap((port: unknown, at) =>
    typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65535
      ? []
      : [issue(`${path}.${at}`, 'invalid_port', 'must be a whole number from 1 to 65535')],
  )
}

function protocolIssues(path: string, protocols: unknown): Found[] {
  if (protocols === undefined) return []
  if (!Array.isArray(protocols) || protocols.length === 0) return [issue(path, 'invalid_type', 'must be a list of protocols')]
  if (protocols.length > 1) return [issue(path, 'too_many', 'must be tcp alone')]
  return protocols[0] === 'tcp' ? [] : [issue(`${path}.0`, 'invalid_protocol', 'must be tcp')]
}

function cidrIssues(path: string, cidr: unknown): Found[] {
  if (typeof cidr !== 'string') return [issue(path, 'invalid_type', 'must be text')]
  const normal = normalCidr(cidr)
  return 'reason' in normal ? [issue(path, normal.reason, normal.message)] : []
}

function unknownNames(prefix: string, object: Record<string, unknown>, known: readonly string[]): Found[] {
  return Object.keys(object)
    .filter((name) => !known.includes(name))
    .slice(0, UNKNOWN_MAX)
    .map((name) => issue(`${prefix}${name.slice(0, NAME_CHARACTERS_MAX).toWellFormed()}`, 'unknown_property', 'is not a known property'))
}

const UNKNOWN_MAX = 20
const NAME_CHARACTERS_MAX = 200

function issue(path: string, reason: string, message: string): Found {
  return { path, reason, message }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
