import { isIP } from 'node:net'

/** Values of `details.issues[].reason`. */
export type CidrReason = 'invalid_cidr' | 'host_bits_set' | 'not_public'
export type NormalCidr = { cidr: string } | { reason: CidrReason; message: string }

export interface Network {
  family: 4 | 6
  first: bigint
  prefix: number
}

const BITS = { 4: 32, 6: 128 } as const

/** No policy may allow these. machine/internal/egress enforces the same lists. */
const NEVER = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '168.63.129.16/32', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '224.0.0.0/4', '240.0.0.0/4'],
  // Global IPv6 networks that embed IPv4 addresses or are for documentation.
  ...['2001::/32', '2001:db8::/32', '2002::/16', '3fff::/20'],
].map(known)
/** IPv6 outside this network is loopback, private, IPv4-mapped or unassigned, and is refused. */
const WORLDWIDE = known('2000::/3')

export function normalCidr(given: string): NormalCidr {
  const network = parseCidr(given)
  if (network === null) return { reason: 'invalid_cidr', message: 'is not a network, as in 203.0.113.0/24' }
  if (network.first % sizeOf(network) !== 0n)
    return { reason: 'host_bits_set', message: `names a host and not a network: did you mean ${textOf(masked(network))}?` }
  const is_public = !NEVER.some((one) => overlap(one, network)) && (network.family === 4 || contains(WORLDWIDE, network))
  if (!is_public) return { reason: 'not_public', message: 'is not a public network, or holds one that is not' }
  return { cidr: textOf(network) }
}

/** null: the text is not a network. Accepts networks whose host bits are set. */
export function parseCidr(text: string): Network | null {
  const [, address = '', length = ''] = /^([0-9A-Fa-f.:]{2,45})\/(0|[1-9][0-9]{0,2})$/.exec(text) ?? []
  const family = isIP(address)
  const prefix = Number(length)
  if ((family !== 4 && family !== 6) || prefix > BITS[family]) return null
  return { family, prefix, first: family === 4 ? joined(address.split('.').map(Number), 8n) : joined(groupsOf(address), 16n) }
}

function known(text: string): Network {
  const network = parseCidr(text)
  if (network === null) throw new Error(`${text} is no network`)
  return network
}

export function contains(outer: Network, inner: Network): boolean {
  return outer.family === inner.family && outer.prefix <= inner.prefix && masked({ ...inner, prefix: outer.prefix }).first === outer.first
}

function overlap(one: Network, other: Network): boolean {
  return contains(one, other) || contains(other, one)
}

/** Several networks may cover the network together. */
export function isCovered(network: Network, by: readonly Network[]): boolean {
  if (by.some((one) => contains(one, network))) return true
  const inside = by.filter((one) => contains(network, one))
  if (inside.length < 2) return false
  const half = { ...network, prefix: network.prefix + 1 }
  return isCovered(half, inside) && isCovered({ ...half, first: half.first + sizeOf(half) }, inside)
}

export function textOf({ family, first, prefix }: Network): string {
  if (family === 4) return `${[24n, 16n, 8n, 0n].map((shift) => (first >> shift) & 255n).join('.')}/${prefix}`
  const groups = Array.from({ length: 8 }, (_, at) => ((first >> BigInt(112 - 16 * at)) & 0xffffn).toString(16))
  return `${new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)}/${prefix}`
}

function masked(network: Network): Network {
  return { ...network, first: network.first - (network.first % sizeOf(network)) }
}

function sizeOf({ family, prefix }: Network): bigint {
  return 1n << BigInt(BITS[family] - prefix)
}

function joined(parts: number[], bits: bigint): bigint {
  return parts.reduce((sum, part) => (sum << bits) | BigInt(part), 0n)
}

function groupsOf(address: string): number[] {
  const plain = address.replace(/[0-9.]+$/, (tail) => {
    if (!tail.includes('.')) return tail
    const [a = 0, b = 0, c = 0, d = 0] = tail.split('.').map(Number)
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
  })
  const [head = [], tail] = plain.split('::').map((part) => part.split(':').filter((group) => group !== ''))
  const gap = tail === undefined ? [] : Array<string>(8 - head.length - tail.length).fill('0')
  return [...head, ...gap, ...(tail ?? [])].map((group) => Number.parseInt(group, 16))
}
