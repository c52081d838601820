// Needs its own installation: the test kills its hostd.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import type { Changes } from '../../contract/schemas/cell/change.ts'
import type { SearchResult } from '../../contract/schemas/cell/search.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

let service: Service
let client: Client
let workspace: OpenedWorkspace

/** A search in the guest takes several times the limit after which the host takes over. */
const FILES = 8000
const TREE = '/home/user/tree'
const MANY = `
import os
for d in range(${FILES / 1000}):
    os.makedirs(f'${TREE}/d{d}')
    for f in range(1000):
        with open(f'${TREE}/d{d}/f{f}', 'w') as file:
            file.write('hay\\n' * 10 + ('needle\\n' if f % 500 == 0 else ''))
`

before(async () => {
  service = await startService({ settings: { slot_memory_mib: 512 } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('beside', { caps: { memory_mib: 512 } })
  await run('python3', '-c', MANY)
})
after(async () => {
  await service.stop()
})

const run = async (...argv: string[]) => {
  const { exit, stderr } = await client.run(workspace, argv)
  assert.equal(exit.exit_code, 0, stderr)
}
const search = async (path: string, json: object = {}) => {
  const { status, headers, body } = await client.tool<SearchResult>(workspace, '/files/search', {
    json: { path, pattern: 'needle', max_matches: 5000, context_lines: 1, ...json },
  })
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(headers['x-served-from'], undefined)
  return body
}
const readers = () =>
  globSync('/proc/[0-9]*/cmdline').filter((file) => lineOf(file).startsWith(`berth-${service.instance}-disk-reader\0`)).length
function lineOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // it ended
  }
}
/** `/./` keeps the search in the guest: the host searches only normalized paths. */
async function inTheGuest(json: object = {}): Promise<SearchResult> {
  const before = readers()
  const found = await search('/home/user/./tree', json)
  assert.equal(readers(), before)
  return { ...found, matches: found.matches.map((match) => ({ ...match, path: match.path.replace('/./', '/') })) }
}

test('only a long search starts a reader, and both find the same as the guest', async () => {
  assert.equal((await search(`${TREE}/d0/f0`)).matches.length, 1)
  assert.equal(readers(), 0)
  const inside = await inTheGuest()
  assert.equal(inside.files_scanned, FILES)
  const beside = await search(TREE)
  assert.equal(readers(), 1)
  assert.deepEqual(beside, inside)
  assert.deepEqual(await search(TREE, { pattern: 'N[e]+dle', regex: true, case_insensitive: true, exclude: ['d3'] }), {
    ...(await inTheGuest({ pattern: 'N[e]+dle', regex: true, case_insensitive: true, exclude: ['d3'] })),
  })
})

test('a long search continues by its cursor page by page, as in the guest', async () => {
  const matches: SearchResult['matches'] = []
  let scanned = 0
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: SearchResult = await search(TREE, { max_matches: 5, ...(cursor === '' ? {} : { cursor }) })
    matches.push(...page.matches)
    scanned += page.files_scanned
    cursor = page.next_cursor
  }
  assert.deepEqual(matches, (await inTheGuest()).matches)
  assert.ok(scanned >= FILES, `${scanned}`)
})

test('a search finds a line that was just written', async () => {
  for (let n = 0; n < 5; n++) {
    await run('bash', '-c', `echo "fresh ${n}" > ${TREE}/d7/fresh`)
    const { matches } = await search(TREE, { pattern: 'fresh' })
    assert.deepEqual(
      matches.map(({ path, text }) => `${path}: ${text}`),
      [`${TREE}/d7/fresh: fresh ${n}`],
    )
  }
})

test('files on a mount of the guest are searched by the guest', async () => {
  await run('sudo', 'bash', '-ec', `mkdir ${TREE}/m && mount -t tmpfs none ${TREE}/m && echo mounted > ${TREE}/m/f`)
  const { matches } = await search(TREE, { pattern: 'mounted' })
  assert.deepEqual(
    matches.map(({ path }) => path),
    [`${TREE}/m/f`],
  )
  await run('sudo', 'umount', `${TREE}/m`)
  assert.deepEqual((await search(TREE, { pattern: 'mounted' })).matches, [])
})

test('a large page of changes equals the small pages that the guest lists alone', async () => {
  await run(
    'bash',
    '-c',
    `cd ${TREE}/d1; chmod 4711 f1; ln -s f1 link; ln f2 hard; truncate -s 1G f3; mkfifo pipe; touch "$(printf 'bad\\377')"`,
  )
  const pages = async (limit: number) => {
    const found: object[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const at: string = cursor === '' ? '' : `&cursor=${cursor}`
      const { status, body } = await client.tool<Changes>(workspace, `/changes?path_prefix=${TREE}/d1&limit=${limit}${at}`)
      assert.equal(status, 200)
      // The size of a directory differs between the sandbox's cache and the disk.
      found.push(...body.data.map((change) => (change.type === 'directory' ? { ...change, size: 0 } : change)))
      cursor = body.next_cursor
    }
    return found
  }
  const alone = await pages(100)
  assert.equal(alone.length, 1005)
  assert.deepEqual(await pages(1000), alone)
})

test('after a kill of hostd, which ends the reader, a search still covers all files', async () => {
  await search(TREE)
  assert.equal(readers(), 1)
  await service.kill9('hostd')
  assert.equal((await search(TREE)).files_scanned, FILES + 1)
})

test('after a suspend no reader of the machine is left, and searches read the disk', async () => {
  const running = await search(TREE)
  const { state } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.equal(state, 'succeeded')
  const token = await client.token(workspace.id)
  const { body } = await client.tool<SearchResult>({ ...workspace, token }, '/files/search', {
    json: { path: TREE, pattern: 'needle', max_matches: 5000, context_lines: 1 },
  })
  assert.deepEqual(body, running)
  assert.equal(readers(), 1)
})
