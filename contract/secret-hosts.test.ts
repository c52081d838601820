import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostIssues, isHeaderValue, normalHosts } from './secret-hosts.ts'

const reasons = (hosts: Parameters<typeof hostIssues>[0]) => hostIssues(hosts).map(({ path, reason }) => [path, reason])

test('secret hosts follow the rules of egress names, with one injection target each, and every problem is reported', () => {
  const hosts = [
    { host: '127.0.0.1' },
    { host: 'metadata.internal' },
    { host: 'api.example.com', bearer: true as const, query: 'key' },
    { host: 'api.example.com', header: 'Transfer-Encoding' },
    { host: 'api.example.com', basic_user: 'a:b' },
    { host: '*.example.com', header: 'X-Key' },
  ]
  assert.deepEqual(reasons(hosts), [
    ['hosts.0.host', 'ip_literal'],
    ['hosts.1.host', 'local_name'],
    ['hosts.2', 'one_place'],
    ['hosts.3.header', 'message_header'],
    ['hosts.4.basic_user', 'invalid_user'],
  ])
})

test('hosts are normalised, with port 443 by default', () => {
  assert.deepEqual(
    normalHosts([
      { host: 'API.Example.com.', bearer: true },
      { host: 'b.example.com', ports: [8443, 443] },
    ]),
    [
      { host: 'api.example.com', ports: [443], bearer: true },
      { host: 'b.example.com', ports: [443, 8443] },
    ],
  )
})

test('a value that a header cannot contain cannot be bound to hosts', () => {
  for (const value of ['sk-1', 'two words', '~']) assert.equal(isHeaderValue(value), true, value)
  for (const value of ['', ' a', 'a ', 'a\r\nb: c', 'a\tb', 'ä', '\u007f']) assert.equal(isHeaderValue(value), false, JSON.stringify(value))
})
