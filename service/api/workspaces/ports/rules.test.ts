import assert from 'node:assert/strict'
import { test } from 'node:test'
import { linkPath, refuseOwnPort, secondsOf } from './rules.ts'

const issuesOf = (work: () => unknown) => {
  try {
    work()
    return null
  } catch (error) {
    return (error as { reason: string | null }).reason ?? 'validation_failed'
  }
}

test('a link stays on its own host, however its path is written', () => {
  for (const path of [
    '/',
    '/a?b=c#d',
    '/%0d%0aSet-Cookie:x',
    '/a//b',
    '/a/../b',
    '/.//evil.test',
    '/:@evil.test',
    '/ä b',
    '/a\\evil.test',
    '/?next=//evil.test',
  ]) {
    const to = new URL(linkPath(path), 'https://3000-x.ports.test')
    assert.equal(to.host, '3000-x.ports.test', path)
    assert.match(linkPath(path), /^\/(?![/\\])[\x21-\x7e]*$/, path)
  }
})

test('ASCII in a path stays, and the rest is percent-encoded once', () => {
  assert.equal(linkPath('/a%20b?x=ä&y=1 2\\'), '/a%20b?x=%C3%A4&y=1%202%5C')
})

test('a path is refused that a browser reads as another host or a header, or that is reserved', () => {
  const refused = ['', 'a', '//evil.test', '/\\evil.test', '\\\\evil.test', 'https:evil.test', 'https://evil.test', '/\t/evil.test',
    '/a\r\nSet-Cookie: x', '/\u0085', '/__service/link', '/__service', '/a/../__service/x', '/%2e%2e/__service/x', `/${'ä'.repeat(1000)}`] // prettier-ignore
  for (const path of refused)
    assert.equal(
      issuesOf(() => linkPath(path)),
      'invalid_path',
      path,
    )
})

test('a TTL is accepted under each of its names, and under several that agree', () => {
  assert.deepEqual(
    [secondsOf({}, 60), secondsOf({ ttl: 61 }, 60), secondsOf({ ttlSeconds: 62 }, 60), secondsOf({ ttl_seconds: 63, ttl: 63 }, 60)],
    [60, 61, 62, 63],
  )
  assert.equal(
    issuesOf(() => secondsOf({ ttl_seconds: 63, ttl: 64 }, 60)),
    'validation_failed',
  )
})

test('the port of the agent is never exposed', () => {
  assert.equal(
    issuesOf(() => refuseOwnPort(65_100)),
    'validation_failed',
  )
  assert.equal(
    issuesOf(() => refuseOwnPort(65_101)),
    null,
  )
})
