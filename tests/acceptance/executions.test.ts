// Commands of file-first workspaces on real machines.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Execution } from '../../contract/schemas/cell/execution.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

let service: Service
let client: Client
before(async () => {
  service = await startService({ settings: { file_first: 'yes' } })
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const small = { mode: 'file_first', caps: { memory_mib: 256, disk_gib: 1 } }
let count = 0
const fresh = () => `execution-${String((count += 1)).padStart(4, '0')}`

async function run(workspace: OpenedWorkspace, argv: string[], body: object = {}): Promise<Execution & { status: number; out: string }> {
  const answer = await client.tool<Execution>(workspace, '/exec', { json: { execution_id: fresh(), argv, ...body } })
  assert.ok(answer.status === 201 || answer.status === 200, JSON.stringify(answer.body))
  return { ...answer.body, status: answer.status, out: Buffer.from(answer.body.stdout, 'base64').toString() }
}
const sh = (workspace: OpenedWorkspace, script: string, body: object = {}) => run(workspace, ['sh', '-c', script], body)
const changes = ({ changed }: Execution) => changed.map(({ path, change, type }) => `${change} ${type} ${path.replace('/home/user/', '')}`)

async function put(workspace: OpenedWorkspace, path: string, text: string): Promise<void> {
  const answer = await client.tool(workspace, `/files?path=/home/user/${path}&create_parents=true`, {
    method: 'PUT',
    bytes: Buffer.from(text),
  })
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
}
async function get(workspace: OpenedWorkspace, path: string): Promise<string> {
  const answer = await client.tool(workspace, `/files?path=/home/user/${path}`)
  return answer.status === 200 ? answer.bytes.toString() : `${answer.status}`
}

test('a command sees the files, and what it changes below /home/user is the next revision', async () => {
  const workspace = await client.open('first', small)
  const nothing = await run(workspace, ['true'])
  assert.deepEqual(
    [nothing.status, nothing.state, nothing.error, nothing.base_revision, nothing.tree_revision],
    [201, 'succeeded', null, 0, 0],
  )
  assert.deepEqual([nothing.exit_code, nothing.term_signal, nothing.timed_out, nothing.changed], [0, null, false, []])
  await put(workspace, 'notes/a.txt', 'from the API\n')
  const first = await sh(
    workspace,
    'cat notes/a.txt; echo more >> notes/a.txt; echo new > b.txt; mkdir -p d/e; ln -s ../b.txt d/link; echo no > /tmp/x; id -un; pwd',
  )
  assert.equal(first.out, 'from the API\nuser\n/home/user\n', JSON.stringify(first))
  assert.deepEqual([first.base_revision, first.tree_revision], [1, 2])
  assert.deepEqual(changes(first), [
    'added file b.txt',
    'added directory d',
    'added directory d/e',
    'added symlink d/link',
    'modified file notes/a.txt',
  ])
  assert.equal(await get(workspace, 'notes/a.txt'), 'from the API\nmore\n')
  const second = await sh(workspace, 'cat notes/a.txt d/link; ls -A /tmp; rm -r d; chmod 700 b.txt')
  assert.equal(second.out, 'from the API\nmore\nnew\n', JSON.stringify(second))
  assert.deepEqual([second.base_revision, second.tree_revision], [2, 3])
  assert.deepEqual(changes(second), ['modified file b.txt', 'deleted directory d'])
  assert.equal(await get(workspace, 'd/link'), '404')
  const third = await sh(workspace, 'stat -c %a b.txt; ls; exit 3')
  assert.deepEqual([third.out, third.exit_code, third.tree_revision], ['700\nb.txt\nnotes\n', 3, 3], JSON.stringify(third))
  console.log(JSON.stringify([nothing.timings, first.timings, second.timings, third.timings]))
})
