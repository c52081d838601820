import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Execution } from '../../contract/schemas/cell/execution.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

let service: Service
let client: Client
before(async () => {
  service = await startService()
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

test('a command sees the files, and its changes below /home/user become the next revision', async () => {
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

test('moved directories stay complete, and a deleted file of the template is back at the next command', async () => {
  const workspace = await client.open('moved', small)
  const first = await sh(workspace, 'mkdir -p old/in && echo text > old/in/file && ls -A / | head -3 > /dev/null; ls -A')
  assert.equal(first.state, 'succeeded', JSON.stringify(first.error))
  const moved = await sh(workspace, 'mv old new && cat new/in/file && echo more > new/more')
  assert.equal(moved.out, 'text\n', JSON.stringify(moved))
  assert.deepEqual(changes(moved), [
    'added directory new',
    'added directory new/in',
    'added file new/in/file',
    'added file new/more',
    'deleted directory old',
  ])
  assert.deepEqual([await get(workspace, 'new/in/file'), await get(workspace, 'new/more')], ['text\n', 'more\n'])
  const again = await sh(workspace, 'cat new/in/file; mv new old; rm -r old/in; mkdir old/in; ls -A old/in; ls old')
  assert.equal(again.out, 'text\nin\nmore\n', JSON.stringify(again))
  const own = first.out.trim().split('\n').filter((name) => name !== 'old') // prettier-ignore
  const gone = await sh(workspace, `rm -rf ${own.join(' ')}; ls -A`)
  assert.deepEqual([gone.out, gone.changed], ['old\n', []])
  assert.equal((await sh(workspace, 'ls -A')).out, first.out)
})

test('a published revision has mapped writes, and the writes of leftover processes up to the end of the command', async () => {
  const workspace = await client.open('mapped', small)
  const map = `import mmap
with open('mapped', 'wb+') as file:
    file.truncate(8192)
    memory = mmap.mmap(file.fileno(), 8192)
    memory[0:4], memory[8188:8192] = b'head', b'tail'`
  const mapped = await run(workspace, ['python3', '-c', map])
  assert.deepEqual(changes(mapped), ['added file mapped'])
  const bytes = (await client.tool(workspace, '/files?path=/home/user/mapped')).bytes
  assert.deepEqual([bytes.length, bytes.subarray(0, 4).toString(), bytes.subarray(-4).toString()], [8192, 'head', 'tail'])
  const left = await sh(workspace, `setsid sh -c 'while :; do echo more >> log; done' >/dev/null 2>&1 & while [ ! -s log ]; do :; done`)
  assert.deepEqual([left.state, changes(left)], ['succeeded', ['added file log']], JSON.stringify(left.error))
  const text = await get(workspace, 'log')
  assert.equal(text.replaceAll('more\n', ''), '', 'whole lines and nothing else')
  assert.equal((await sh(workspace, 'wc -c < log')).out, `${text.length}\n`)
})

test('files that a tree cannot hold fail the command and publish nothing; signals and timeouts are reported', async () => {
  const workspace = await client.open('failing', small)
  await put(workspace, 'kept', 'kept')
  const reason = async (script: string, expected: string) => {
    const { state, error, tree_revision } = await sh(workspace, script)
    assert.deepEqual([state, error?.details.reason, tree_revision], ['failed', expected, null], script)
  }
  await reason(`touch "$(printf 'bad\\377')"; echo x > kept`, 'invalid_name')
  await reason('truncate -s 100G sparse; echo x > kept', 'disk_full')
  assert.equal((await run(workspace, ['no-such-program'])).error?.details.reason, 'exec_failed_to_start')
  assert.equal((await run(workspace, ['true'], { cwd: '/home/user/none' })).error?.details.reason, 'exec_failed_to_start')
  const killed = await sh(workspace, 'echo before > made; kill -9 $$')
  assert.deepEqual([killed.state, killed.exit_code, killed.term_signal, killed.timed_out], ['succeeded', -1, 'SIGKILL', false])
  assert.deepEqual(changes(killed), ['added file made'], 'a command ran to its end, however it ended')
  const late = await run(workspace, ['sleep', '100'], { timeout_ms: 300 })
  assert.deepEqual([late.state, late.timed_out, late.exit_code], ['succeeded', true, -1])
  const special = await sh(workspace, 'mkfifo pipe; ln made hard; truncate -s 1M hole; ls')
  assert.deepEqual(changes(special), ['added file hard', 'added file hole'])
  assert.equal(await get(workspace, 'kept'), 'kept')
  const env = await run(workspace, ['sh', '-c', 'cat; printf %s "$A"; pwd'], { stdin: 'in-', env: { A: 'a-' }, cwd: '/home/user' })
  assert.equal(env.out, 'in-a-/home/user\n')
})

test('a command survives a kill of hostd; a kill of the cell loses the command and removes its machine', async () => {
  const workspace = await client.open('dying', small)
  await put(workspace, 'file', 'text')
  const start = (id: string, script: string) =>
    client.tool<Execution>(workspace, '/exec', { json: { execution_id: id, argv: ['sh', '-c', script] } })
  const runs = async (id: string) => {
    for (let turn = 0; turn < 600; turn++) {
      const found = await client.tool<Execution>(workspace, `/executions/${id}`)
      if (found.status === 202 && found.body.state === 'running') return
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    assert.fail(`${id} does not run`)
  }
  const survivor = start('survives-hostd', 'sleep 5; echo done > done; cat file')
  await runs('survives-hostd')
  await service.kill9('hostd')
  const { body } = await survivor
  assert.deepEqual(
    [body.state, Buffer.from(body.stdout, 'base64').toString(), body.tree_revision],
    ['succeeded', 'text', 2],
    JSON.stringify(body),
  )
  const lost = start('lost-with-cell', 'sleep 300; echo never > never').catch(() => undefined)
  await runs('lost-with-cell')
  await service.kill9('cell')
  await lost
  await service.ready()
  const found = await client.tool<Execution>(workspace, '/executions/lost-with-cell')
  assert.deepEqual([found.status, found.body.state, found.body.error?.details.reason], [200, 'lost', 'host_restarted'])
  const retried = await start('lost-with-cell', 'sleep 300; echo never > never')
  assert.deepEqual([retried.status, retried.body.state], [200, 'lost'])
  const next = await sh(workspace, 'ls')
  assert.deepEqual([next.out, next.base_revision], ['done\nfile\n', 2], JSON.stringify(next))
  const { machines } = await service.inventory()
  assert.deepEqual(machines.filter(({ subject }) => subject.kind === 'execution'), []) // prettier-ignore
})

test('a delete of a workspace removes its command and the host copy of its files', async () => {
  const workspace = await client.open('deleted', small)
  await put(workspace, 'file', 'text')
  await sh(workspace, 'true')
  const running = client.tool(workspace, '/exec', { json: { execution_id: fresh(), argv: ['sleep', '300'] } }).catch(() => undefined)
  const has = async () => (await service.inventory()).machines.some(({ subject }) => subject.id === workspace.id)
  for (let turn = 0; turn < 600 && !(await has()); turn++) await new Promise((resolve) => setTimeout(resolve, 50))
  const operation = await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
  assert.equal(operation.state, 'succeeded')
  await running
  const { machines, files } = await service.inventory()
  assert.deepEqual([...machines, ...files].filter(({ subject }) => subject.id === workspace.id), []) // prettier-ignore
})
