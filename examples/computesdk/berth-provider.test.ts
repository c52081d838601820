import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { compute } from 'computesdk'
import { berth } from './berth-provider.ts'

const sdk = compute({ provider: berth({}) })
let sandbox: Awaited<ReturnType<typeof sdk.sandbox.create>>
before(async () => {
  sandbox = await sdk.sandbox.create()
})
after(() => sandbox.destroy())

test('a sandbox has an id, is found by it, is listed, and reports its state', async () => {
  assert.equal(sandbox.provider, 'berth')
  assert.equal((await sdk.sandbox.getById(sandbox.sandboxId))?.sandboxId, sandbox.sandboxId)
  assert.ok((await sdk.sandbox.list()).some(({ sandboxId }) => sandboxId === sandbox.sandboxId))
  const { id, provider, status, createdAt } = await sandbox.getInfo()
  assert.deepEqual([id, provider, status, createdAt instanceof Date], [sandbox.sandboxId, 'berth', 'running', true])
})

test('commands run in a shell, with their output, exit code, folder and variables', async () => {
  const { stdout, stderr, exitCode } = await sandbox.runCommand('echo "$A in $PWD" | tr a-z A-Z; echo err >&2; exit 3', {
    cwd: '/tmp',
    env: { A: 'x' },
  })
  assert.deepEqual([stdout, stderr, exitCode], ['X IN /TMP\n', 'err\n', 3])
  assert.equal((await sandbox.runCommand('nonexistent-command-12345')).exitCode, 127)
  assert.equal((await sandbox.runCommand(`sh -c 'echo "two words"'`)).stdout, 'two words\n')
  assert.notEqual((await sandbox.runCommand('sleep 60', { timeout: 300 })).exitCode, 0)
})

test('a background command runs on after the call has returned', async () => {
  const { exitCode, durationMs } = await sandbox.runCommand('sleep 3; echo late > /tmp/late', { background: true })
  assert.deepEqual([exitCode, durationMs < 3000], [0, true])
  assert.equal((await sandbox.runCommand('until [ -s /tmp/late ]; do sleep 0.1; done; cat /tmp/late')).stdout, 'late\n')
})

test('output arrives while the command runs', async () => {
  const seen: string[] = []
  let first_seen_at = 0
  const began = performance.now()
  const { stdout } = await sandbox.runCommand('echo one; sleep 2; echo two; echo three >&2', {
    onStdout(text) {
      first_seen_at ||= performance.now() - began
      seen.push(text)
    },
    onStderr: (text) => seen.push(`err ${text}`),
  })
  assert.deepEqual([stdout, seen.join('').includes('err three'), first_seen_at < 1800], ['one\ntwo\n', true, true])
})

test('files and folders are written, read, listed, found and removed', async () => {
  const { filesystem } = sandbox
  await filesystem.mkdir('/tmp/folder/below')
  await filesystem.writeFile('/tmp/folder/file.txt', 'content ü')
  assert.equal(await filesystem.readFile('/tmp/folder/file.txt'), 'content ü')
  const entries = (await filesystem.readdir('/tmp/folder')).map(({ name, type }) => `${type} ${name}`).toSorted()
  assert.deepEqual(entries, ['directory below', 'file file.txt'])
  assert.equal(await filesystem.exists('/tmp/folder/file.txt'), true)
  await filesystem.remove('/tmp/folder')
  assert.equal(await filesystem.exists('/tmp/folder/file.txt'), false)
  await assert.rejects(filesystem.readFile('/nonexistent/file.txt'))
})

test('a port has a URL that needs no other credential', async () => {
  await sandbox.runCommand('cd /tmp && echo served > page && exec python3 -m http.server 8321', { background: true })
  await sandbox.runCommand(
    'until python3 -c "import socket; socket.create_connection((\'127.0.0.1\', 8321))" 2> /dev/null; do sleep 0.1; done',
  )
  assert.match(await sandbox.getUrl({ port: 8321 }), /^https?:\/\/.+/)
  assert.match(await sandbox.getUrl({ port: 8321, protocol: 'wss' }), /^wss?:\/\/.+/)
})

test('a snapshot is made, listed and deleted', async () => {
  const { id } = await sdk.snapshot.create(sandbox.sandboxId, { name: 'kept' })
  assert.ok((await sdk.snapshot.list()).some((each) => each.id === id))
  await sdk.snapshot.delete(id)
  assert.equal((await sdk.snapshot.list()).some((each) => each.id === id), false) // prettier-ignore
})

test('a destroyed sandbox is not found, and a second destroy does nothing', async () => {
  const other = await sdk.sandbox.create({ name: 'other' })
  await other.destroy()
  await sdk.sandbox.destroy(other.sandboxId)
  assert.equal(await sdk.sandbox.getById(other.sandboxId), null)
  await sdk.sandbox.destroy('00000000-0000-7000-8000-000000000000')
})

// Measured as in ComputeSDK's benchmark: from the request for a sandbox to the end of its first command.
test('time to the first command', async (t) => {
  const times: number[] = []
  for (let turn = 0; turn < 5; turn += 1) {
    const began = performance.now()
    const each = await sdk.sandbox.create()
    assert.equal((await each.runCommand('echo benchmark')).stdout, 'benchmark\n')
    times.push(performance.now() - began)
    await each.destroy()
  }
  const [, , median = 0] = times.toSorted((a, b) => a - b)
  t.diagnostic(`median of ${times.length}: ${median.toFixed(0)} ms`)
  assert.ok(median < 20_000)
})
