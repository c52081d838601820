import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { FileList } from '../../contract/schemas/cell/file.ts'
import type { SearchResult } from '../../contract/schemas/cell/search.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('pages-of-files')
})
after(() => service.stop())

async function listed(query: string): Promise<{ paths: string[]; pages: number }> {
  const paths: string[] = []
  for (let pages = 1, from = ''; ; pages++) {
    const { status, body } = await client.tool<FileList>(workspace, `/files/list?path=/home/user&limit=10000${query}${from}`)
    assert.equal(status, 200)
    paths.push(...body.entries.map(({ path }) => path))
    assert.equal(body.truncated, body.next_cursor !== null)
    if (body.next_cursor === null) return { paths, pages }
    from = `&cursor=${body.next_cursor}`
  }
}

async function found(max_matches: number): Promise<string[]> {
  const lines: string[] = []
  for (let from = {}; ;) {
    const json = { path: '/home/user', pattern: 'needle', max_matches, ...from }
    const { status, body } = await client.tool<SearchResult>(workspace, '/files/search', { json })
    assert.equal(status, 200)
    lines.push(...body.matches.map(({ path, line }) => `${path}:${line}`))
    if (body.next_cursor === null) return lines
    from = { cursor: body.next_cursor }
  }
}

test(
  'a directory of 20,000 files is listed and searched by pages, in a running and in a suspended workspace',
  { timeout: patience(300_000) },
  async () => {
    const script = `
import os
for d in range(4):
    os.makedirs(f'd{d}/sub')
    for i in range(5): open(f'd{d}/sub/n{i}', 'w').write('needle\\nhay\\n' * 3)
for i in range(20000): os.close(os.open(f'f{i:05}', os.O_CREAT))
`
    const { exit, stderr } = await client.run(workspace, ['python3', '-c', script])
    assert.equal(exit.exit_code, 0, stderr)
    const flat = await listed('')
    const below = await listed('&recursive=true')
    const files = flat.paths.filter((path) => /\/f\d{5}$/.test(path))
    assert.deepEqual([files.length, new Set(flat.paths).size === flat.paths.length, flat.pages], [20_000, true, 3])
    assert.deepEqual([below.paths.length - flat.paths.length, new Set(below.paths).size === below.paths.length], [4 * 6, true])
    assert.deepEqual(flat.paths.toSorted(), flat.paths)
    const lines = await found(5000)
    assert.deepEqual([lines.length, await found(7)], [4 * 5 * 3, lines])
    await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
    workspace.token = await client.token(workspace.id)
    assert.deepEqual(await listed(''), flat)
    assert.deepEqual(await listed('&recursive=true'), below)
    assert.deepEqual(await found(7), lines)
    await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
  },
)
