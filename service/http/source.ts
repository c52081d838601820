import { isIPv6 } from 'node:net'

/** Source of an address for rate limits. An IPv6 client owns the 2^64 addresses of its /64 network, which is the source. Pure. */
export function sourceOf(address: string): string {
  return isIPv6(address) && !address.includes('.') ? network(address) : address
}

function network(address: string): string {
  const [first = [], last] = address.split('::').map((half) => half.split(':').filter((group) => group !== ''))
  const zeros = last === undefined ? 0 : 8 - first.length - last.length
  return [...first, ...Array<string>(zeros).fill('0'), ...(last ?? [])].slice(0, 4).join(':')
}
