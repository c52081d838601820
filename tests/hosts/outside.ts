import { execFileSync, spawn } from 'node:child_process'

/**
 * A network namespace behind the default route plays the internet, because the emulated computer has no other network. Traffic to this
 * address range is discarded elsewhere (RFC 7535).
 */
export const OUTSIDE = { address: '192.31.196.10', port: 8000, body: 'outside' }

const NAMESPACE = 'outside'
const SERVER = `require('node:http').createServer((request, response) => response.end('${OUTSIDE.body}')).listen(${OUTSIDE.port}, '${OUTSIDE.address}')`

export function openOutside(): void {
  const ip = (line: string) => execFileSync('ip', line.split(' '), { stdio: ['ignore', 'ignore', 'pipe'] })
  const there = (line: string) => ip(`-n ${NAMESPACE} ${line}`)
  try {
    ip(`netns add ${NAMESPACE}`)
  } catch {
    return // the namespace exists since before a restart of this program
  }
  ip(`link add wan0 type veth peer name eth0 netns ${NAMESPACE}`)
  ip('address add 198.51.100.2/24 dev wan0')
  ip('link set wan0 up')
  for (const line of [
    'link set lo up',
    'address add 198.51.100.1/24 dev eth0',
    'link set eth0 up',
    `address add ${OUTSIDE.address}/32 dev lo`,
  ])
    there(line)
  ip('route add default via 198.51.100.1')
  spawn('ip', ['netns', 'exec', NAMESPACE, process.execPath, '-e', SERVER], { stdio: 'ignore', detached: true }).unref()
}
