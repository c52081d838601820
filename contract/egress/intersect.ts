import { LIMITS } from '../limits.ts'
import { contains, isCovered, parseCidr, type Network } from './cidrs.ts'
import { ALLOW_ALL, DENY_ALL, hostCovers, type EgressPolicy, type EgressRule } from './policy.ts'

/**
 * Hosts are compared only with hosts, because the addresses of a name are unknown.
 * @param ceiling null: no ceiling.
 */
export function intersection(policy: EgressPolicy, ceiling: EgressPolicy | null): EgressPolicy {
  if (ceiling === null || ceiling.mode === 'allow_all') return merged(policy)
  if (policy.mode === 'allow_all') return merged(ceiling)
  if (policy.mode === 'deny_all' || ceiling.mode === 'deny_all') return DENY_ALL
  const others = portsOf(ceiling)
  const rules = [...portsOf(policy)].flatMap(([host, ports]) =>
    [...others].flatMap(([other, theirs]) => meetOfHosts(host, ports, other, theirs)),
  )
  const bounds = networksOf(ceiling)
  const cidrs = networksOf(policy).flatMap((one) => bounds.flatMap((other) => meetOfNetworks(one, other)))
  return merged({ mode: 'allowlist', rules, cidrs })
}

export interface ExcessPart {
  /** Path in the policy: `mode`, `rules.0`, `cidrs.1`. */
  path: string
  mode?: EgressPolicy['mode']
  host?: string
  ports?: number[]
  cidr?: string
}

export function outside(policy: EgressPolicy, ceiling: EgressPolicy | null): ExcessPart[] {
  if (ceiling === null || ceiling.mode === 'allow_all') return []
  if (policy.mode === 'allow_all') return [{ path: 'mode', mode: policy.mode }]
  const bounds = networksOf(ceiling).map(({ network }) => network)
  const others = [...portsOf(ceiling)]
  const rules = policy.rules.flatMap(({ host, ports }, at): ExcessPart[] => {
    const covering = others.filter(([other]) => hostCovers(other, host))
    const wider = ports.filter((port) => !covering.some(([, theirs]) => theirs.has(port)))
    return wider.length === 0 ? [] : [{ path: `rules.${at}`, host, ports: wider }]
  })
  const cidrs = policy.cidrs.flatMap((cidr, at): ExcessPart[] => {
    const network = parseCidr(cidr)
    return network !== null && isCovered(network, bounds) ? [] : [{ path: `cidrs.${at}`, cidr }]
  })
  return [...rules, ...cidrs]
}

function merged(policy: EgressPolicy): EgressPolicy {
  if (policy.mode !== 'allowlist') return policy.mode === 'allow_all' ? ALLOW_ALL : DENY_ALL
  const rules = [...portsOf(policy)].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([host, ports]) => rulesOf(host, ports))
  const networks = networksOf(policy)
  const widest = networks.filter(({ cidr, network }) => !networks.some((other) => other.cidr !== cidr && contains(other.network, network)))
  return { mode: 'allowlist', rules, cidrs: [...new Set(widest.map(({ cidr }) => cidr))].sort() }
}

function portsOf({ rules }: EgressPolicy): Map<string, Set<number>> {
  const found = new Map<string, Set<number>>()
  for (const { host, ports } of rules) {
    const known = found.get(host) ?? new Set()
    for (const port of ports) known.add(port)
    found.set(host, known)
  }
  return found
}

/** Fills each rule with ports, so the result has no more rules than the source. */
function rulesOf(host: string, set: ReadonlySet<number>): EgressRule[] {
  const ports = [...set].sort((a, b) => a - b)
  const count = Math.ceil(ports.length / LIMITS.egress.ports_max)
  return Array.from({ length: count }, (_, at): EgressRule => {
    return { host, ports: ports.slice(at * LIMITS.egress.ports_max, (at + 1) * LIMITS.egress.ports_max), protocols: ['tcp'] }
  })
}

function meetOfHosts(one: string, ports: ReadonlySet<number>, other: string, theirs: ReadonlySet<number>): EgressRule[] {
  const host = hostCovers(one, other) ? other : hostCovers(other, one) ? one : null
  return host === null ? [] : rulesOf(host, new Set([...ports].filter((port) => theirs.has(port))))
}

interface Named {
  cidr: string
  network: Network
}

function meetOfNetworks(one: Named, other: Named): string[] {
  if (contains(one.network, other.network)) return [other.cidr]
  return contains(other.network, one.network) ? [one.cidr] : []
}

/** A network that cannot be parsed is dropped, which only narrows the policy. */
function networksOf({ cidrs }: EgressPolicy): Named[] {
  return cidrs.flatMap((cidr) => {
    const network = parseCidr(cidr)
    return network === null ? [] : [{ cidr, network }]
  })
}
