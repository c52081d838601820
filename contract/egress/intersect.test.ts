import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generatorOf, testSeed } from '../../tests/support/seed.ts'
import { LIMITS } from '../limits.ts'
import { contains, parseCidr } from './cidrs.ts'
import { intersection, outside } from './intersect.ts'
import { ALLOW_ALL, DENY_ALL, hostCovers, type EgressPolicy, type EgressRule } from './policy.ts'

const HOSTS = ['a.x.example', 'b.x.example', 'c.a.x.example', 'x.example', 'a.y.example', 'z.test']
const WILD = ['*.x.example', '*.a.x.example', '*.y.example', '*.example.com']
const PORTS = [22, 80, 443, 8443]
const CIDRS = ['8.8.8.0/24', '8.8.8.0/25', '8.8.8.128/25', '8.8.8.8/32', '8.0.0.0/12', '1.1.1.0/24', '2606:4700::/32', '2606:4700::/33']
const ADDRESSES = ['8.8.8.8', '8.8.8.200', '8.9.0.1', '1.1.1.1', '2606:4700::1', '2606:4700:8000::1', '9.9.9.9']

const rule = (host: string, ...ports: number[]): EgressRule => ({ host, ports, protocols: ['tcp'] })
const allowlist = (rules: EgressRule[], cidrs: string[] = []): EgressPolicy => ({ mode: 'allowlist', rules, cidrs })

function letsOut(policy: EgressPolicy): string[] {
  const all = policy.mode === 'allow_all'
  const names = HOSTS.concat('d.example.com').flatMap((name) =>
    PORTS.filter((port) => all || policy.rules.some(({ host, ports }) => hostCovers(host, name) && ports.includes(port))).map(
      (port) => `${name}:${port}`,
    ),
  )
  const addresses = ADDRESSES.filter((address) => {
    const one = parseCidr(`${address}/${address.includes(':') ? 128 : 32}`)
    return all || policy.cidrs.some((cidr) => one !== null && contains(parseCidr(cidr) ?? one, one))
  })
  return [...names, ...addresses]
}

const CASES: [what: string, policy: EgressPolicy, ceiling: EgressPolicy | null, met: EgressPolicy, wider: string[]][] = [
  ['no ceiling', ALLOW_ALL, null, ALLOW_ALL, []],
  ['a ceiling that lets all out', DENY_ALL, ALLOW_ALL, DENY_ALL, []],
  ['all under an allowlist', ALLOW_ALL, allowlist([rule('a.example', 443)]), allowlist([rule('a.example', 443)]), ['mode']],
  ['all under nothing', ALLOW_ALL, DENY_ALL, DENY_ALL, ['mode']],
  ['nothing under nothing', DENY_ALL, DENY_ALL, DENY_ALL, []],
  ['an empty allowlist under nothing', allowlist([]), DENY_ALL, DENY_ALL, []],
  ['an allowlist under nothing', allowlist([rule('a.example', 443)], ['8.8.8.0/24']), DENY_ALL, DENY_ALL, ['rules.0', 'cidrs.0']],
  ['nothing under an allowlist', DENY_ALL, allowlist([rule('a.example', 443)]), DENY_ALL, []],
  ['a host within a wildcard', allowlist([rule('a.x.example', 443)]), allowlist([rule('*.x.example', 443)]), allowlist([rule('a.x.example', 443)]), []],
  ['a wildcard around a host', allowlist([rule('*.x.example', 443)]), allowlist([rule('a.x.example', 443)]), allowlist([rule('a.x.example', 443)]), ['rules.0']],
  ['a wildcard is one label', allowlist([rule('b.a.x.example', 443)]), allowlist([rule('*.x.example', 443)]), allowlist([]), ['rules.0']],
  ['one port of two', allowlist([rule('a.example', 80, 443)]), allowlist([rule('a.example', 443)]), allowlist([rule('a.example', 443)]), ['rules.0']],
  ['ports that two rules have', allowlist([rule('a.x.example', 80, 443)]), allowlist([rule('a.x.example', 80), rule('*.x.example', 443)]), allowlist([rule('a.x.example', 80, 443)]), []],
  ['a network within', allowlist([], ['8.8.8.0/25']), allowlist([], ['8.8.8.0/24']), allowlist([], ['8.8.8.0/25']), []],
  ['a network around', allowlist([], ['8.8.8.0/24']), allowlist([], ['8.8.8.0/25']), allowlist([], ['8.8.8.0/25']), ['cidrs.0']],
  ['a network that two halves cover', allowlist([], ['8.8.8.0/24']), allowlist([], ['8.8.8.0/25', '8.8.8.128/25']), allowlist([], ['8.8.8.0/25', '8.8.8.128/25']), []],
  ['a host against networks', allowlist([rule('a.example', 443)]), allowlist([], ['8.8.8.0/24']), allowlist([]), ['rules.0']],
] // prettier-ignore

for (const [what, policy, ceiling, met, wider] of CASES) {
  test(what, () => {
    assert.deepEqual(intersection(policy, ceiling), met)
    assert.deepEqual(
      outside(policy, ceiling).map(({ path }) => path),
      wider,
    )
  })
}

test('the effective policy allows what policy and ceiling both allow, and outside is empty exactly where nothing is cut', () => {
  const seed = testSeed()
  const random = generatorOf(seed)
  const some = <T>(from: readonly T[]): T[] => from.filter(() => random() < 0.35)
  const policyOf = (): EgressPolicy => {
    const mode = random()
    if (mode < 0.08) return ALLOW_ALL
    if (mode < 0.16) return DENY_ALL
    const rules = some([...HOSTS, ...WILD, ...WILD]).flatMap((host) => {
      const ports = some(PORTS)
      return ports.length === 0 ? [] : [rule(host, ...ports)]
    })
    return allowlist(rules, some(CIDRS))
  }
  const seen = { within: 0, wider: 0 }
  for (let round = 0; round < 3000; round++) {
    const policy = policyOf()
    const ceiling = policyOf()
    const met = intersection(policy, ceiling)
    const told = JSON.stringify({ seed, round, policy, ceiling, met })
    const both = letsOut(policy).filter((one) => letsOut(ceiling).includes(one))
    assert.deepEqual(letsOut(met), both, told)
    assert.deepEqual(outside(met, ceiling), [], told)
    assert.deepEqual(outside(met, policy), [], told)
    const is_within = outside(policy, ceiling).length === 0
    seen[is_within ? 'within' : 'wider'] += 1
    if (is_within) assert.deepEqual(letsOut(met), letsOut(policy), told)
    assert.ok(met.rules.every(({ ports }) => ports.length > 0 && ports.length <= LIMITS.egress.ports_max))
  }
  assert.ok(seen.within > 100 && seen.wider > 100, JSON.stringify(seen))
})

test('the largest policies are intersected within the time of a request', () => {
  const ports = Array.from({ length: 38 }, (_, at) => at + 1)
  const same = allowlist(Array.from({ length: 256 }, () => rule('a.x.example', ...ports)))
  const hosts = allowlist(Array.from({ length: 256 }, (_, at) => rule(at % 2 === 0 ? `h${at}.x.example` : `*.h${at}.example`, ...ports)))
  const began = performance.now()
  for (const one of [same, hosts]) for (const other of [same, hosts]) intersection(one, other)
  outside(same, hosts)
  assert.ok(performance.now() - began < 1000, `${performance.now() - began} ms`)
  assert.equal(intersection(hosts, hosts).rules.length, 256)
})
