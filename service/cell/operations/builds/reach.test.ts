import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALLOW_ALL, DENY_ALL, type EgressPolicy } from '../../../../contract/egress/policy.ts'
import { reachOf } from './reach.ts'

const allowing = (...hosts: string[]): EgressPolicy => ({
  mode: 'allowlist',
  rules: hosts.map((host) => ({ host, ports: [443], protocols: ['tcp'] })),
  cidrs: ['192.0.2.0/24'],
})

test('the reach of a step is described in a few words, with five destinations at most', () => {
  const table: [policy: EgressPolicy, told: string][] = [
    [ALLOW_ALL, 'no policy keeps it from any address'],
    [DENY_ALL, 'its policy lets it reach nothing outside'],
    [{ ...DENY_ALL, mode: 'allowlist' }, 'its policy lets it reach nothing outside'],
    [allowing('pypi.org'), 'its policy lets it reach only pypi.org, 192.0.2.0/24'],
    [allowing('a', 'b', 'c', 'd', 'e', 'f'), 'its policy lets it reach only a, b, c, d, e and 2 more'],
  ]
  for (const [policy, told] of table) assert.equal(reachOf(policy), told)
})
