import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import type { SearchResult } from '../../contract/schemas/cell/search.ts'
import { createClient, type Client, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

/** Less than a blocked search takes, which is its time limit or for ever. */
const AT_ONCE_MS = LIMITS.search.seconds_max * 1000 - 1000

let service: SharedService
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('search')
  await sh(`
    mkdir -p src/sub node_modules/x && cd src
    printf 'one\\nTwo needle\\nthree\\n' > a.ts
    printf 'needle\\n' > sub/b.txt
    printf 'needle\\n' > ../node_modules/x/c.ts
    printf 'needle\\0' > binary
    ln -s /etc outside && ln -s a.ts link && mkfifo fifo
    python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"
    truncate -s 1T sparse`)
})
after(async () => {
  await service.stop()
})

const sh = async (script: string) => {
  const { exit, stderr } = await client.run(workspace, ['bash', '-ec', script])
  assert.equal(exit.exit_code, 0, stderr)
}
const ask = <T = SearchResult>(json: object) =>
  client.tool<T>(workspace, '/files/search', { json: { path: '/home/user', pattern: 'needle', ...json } })
const found = async (json: object) => {
  const { status, body } = await ask(json)
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const places = async (json: object) => (await found(json)).matches.map(({ path, line, column }) => `${path}:${line}:${column}`)

test('matches are ordered by path and line with context, and links, FIFOs, sockets, binary and huge files are skipped', async () => {
  const begun = performance.now()
  assert.deepEqual(await found({ path: '/home/user/src', context_lines: 1 }), {
    matches: [
      { path: '/home/user/src/a.ts', line: 2, column: 5, text: 'Two needle', before: ['one'], after: ['three'] },
      { path: '/home/user/src/sub/b.txt', line: 1, column: 1, text: 'needle', before: [], after: [] },
    ],
    truncated: false,
    stop_reason: null,
    files_scanned: 3,
    next_cursor: null,
  })
  assert.ok(performance.now() - begun < AT_ONCE_MS)
})

test('a search supports literals, RE2, case, include and exclude', async () => {
  assert.deepEqual(await places({ path: '/home/user/src', pattern: 'NEEDLE', case_insensitive: true, include: ['*.ts'] }), [
    '/home/user/src/a.ts:2:5',
  ])
  assert.deepEqual(await places({ path: '/home/user/src', pattern: '^T.o (needle)$', regex: true }), ['/home/user/src/a.ts:2:1'])
  assert.deepEqual(await places({ path: '/home/user/src', pattern: 'T.o' }), [])
  assert.deepEqual(await places({ include: ['**/*.ts'], exclude: ['node_modules'] }), ['/home/user/src/a.ts:2:5'])
  assert.deepEqual(await places({ path: '/home/user/src/link' }), ['/home/user/src/link:2:5'])
})

test('a pattern that is too large or not RE2 is 422, and one with catastrophic backtracking elsewhere is fast', async () => {
  for (const pattern of ['(a)\\1', '(?=a)', '(', 'a'.repeat(1 << 20), '(.{1000}){1000}']) {
    assert.deepEqual(refusalOf(await ask({ pattern, regex: true })).slice(0, 2), [422, 'validation_failed'], pattern.slice(0, 20))
  }
  await sh(`printf '%s!' ${'a'.repeat(40)} > aaa`)
  const begun = performance.now()
  const { matches, stop_reason } = await found({ path: '/home/user/aaa', pattern: '(a+)+$', regex: true })
  assert.deepEqual([matches, stop_reason], [[], null])
  assert.ok(performance.now() - begun < AT_ONCE_MS, `${performance.now() - begun} ms`)
})

test('a search that starts at a special file or a missing path is 4xx at once', async () => {
  for (const [path, wanted] of [
    ['/home/user/src/fifo', [409, 'conflict', 'not_a_file']],
    ['/home/user/src/socket', [409, 'conflict', 'not_a_file']],
    ['/dev/zero', [409, 'conflict', 'not_a_file']],
    ['/home/user/none', [404, 'not_found', 'path_not_found']],
    ['/home/user/src/a.ts/x', [409, 'conflict', 'not_a_directory']],
  ] as const) {
    const begun = performance.now()
    assert.deepEqual(refusalOf(await ask({ path })), wanted, path)
    assert.ok(performance.now() - begun < AT_ONCE_MS)
  }
})

test('a search of / skips /proc, /sys and /dev', async () => {
  const { stop_reason, matches } = await found({ path: '/', pattern: 'MemTotal', max_matches: 5000 })
  assert.notEqual(stop_reason, 'max_matches')
  assert.deepEqual(
    matches.filter(({ path }) => /^\/(proc|sys|dev)\//.test(path)),
    [],
  )
})

test('a search reports when it stops at max_matches or the time limit, and skips files over max_file_bytes', async () => {
  await sh('seq -f "needle %g" 5001 > many; for i in 1 2; do head -c 16000000 /dev/zero | tr "\\0" a > long$i; done')
  const cut = await found({ path: '/home/user/many' })
  assert.deepEqual([cut.matches.length, cut.truncated, cut.stop_reason], [200, true, 'max_matches'])
  const all = await found({ path: '/home/user/many', max_matches: 5000 })
  assert.deepEqual([all.matches.length, all.stop_reason], [5000, 'max_matches'])
  assert.equal((await found({ path: '/home/user/many', max_file_bytes: 1000 })).files_scanned, 0)
  const begun = performance.now()
  const slow = await found({ include: ['long*'], pattern: `${'(a|aa)*'.repeat(300)}b`, regex: true, max_file_bytes: 16 << 20 })
  assert.deepEqual([slow.matches.length, slow.stop_reason], [0, 'time_limit'])
  assert.ok(performance.now() - begun < LIMITS.search.seconds_max * 1000 + 30_000, `${performance.now() - begun} ms`)
})
