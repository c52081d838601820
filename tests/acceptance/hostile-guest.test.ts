import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let hostile: OpenedWorkspace
let neighbour: OpenedWorkspace

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  hostile = await client.open('hostile', { caps: { memory_mib: 512, disk_gib: 1 } })
  neighbour = await client.open('neighbour')
})
after(async () => {
  await service.stop()
})

const neighbourIsWell = async () => assert.equal((await client.run(neighbour, ['echo', 'well'])).stdout, 'well\n')

test('a process that allocates more than the memory dies, and the workspace lives', async () => {
  const { exit } = await client.run(hostile, ['python3', '-c', 'x=[]\nwhile True: x.append(bytearray(8<<20))'], { timeout_ms: 240_000 })
  assert.equal(exit.timed_out, false)
  assert.deepEqual([exit.exit_code, exit.term_signal, exit.reason], [-1, 'SIGKILL', 'out_of_memory'])
  const below = await client.run(hostile, ['bash', '-c', "python3 -c 'x=[]\nwhile True: x.append(bytearray(8<<20))'; exit $?"])
  assert.equal(below.exit.reason, 'out_of_memory')
  assert.equal((await client.run(hostile, ['true'])).exit.reason, undefined)
  assert.equal((await client.run(hostile, ['echo', 'alive'])).stdout, 'alive\n')
  await neighbourIsWell()
})

test('many processes that allocate at once die, and the workspace lives', async () => {
  // Together the processes allocate twice the workspace's memory.
  const each = '(python3 -c "x=bytearray(48<<20); import time; time.sleep(4)"; echo $?) 2>/dev/null & '
  const { stdout, exit } = await client.run(hostile, ['bash', '-c', `${each.repeat(20)} wait`], { timeout_ms: 60_000 })
  assert.equal(exit.timed_out, false)
  // The kernel kills processes one by one, or the whole command if they grow too fast.
  assert.ok(exit.term_signal === 'SIGKILL' || stdout.split('\n').includes('137'), `${JSON.stringify(exit)} ${stdout}`)
  assert.equal((await client.run(hostile, ['echo', 'alive'])).stdout, 'alive\n')
  await neighbourIsWell()
})

test('a full disk refuses writes in the guest and through the files route, and accepts them after a deletion', async () => {
  const filled = await client.run(
    hostile,
    ['bash', '-c', 'dd if=/dev/zero of=/home/user/big bs=1M count=2048 status=none; ls -l /home/user/big | cut -d" " -f5'],
    {
      timeout_ms: 200_000,
    },
  )
  assert.match(filled.stderr, /No space left|quota exceeded/i)
  assert.ok(Number(filled.stdout) <= 1 << 30)
  const refused = await client.tool<{ error: object }>(hostile, '/files?path=/home/user/more', {
    method: 'PUT',
    bytes: Buffer.alloc(4 << 20),
  })
  assert.deepEqual(
    [refused.status, refused.body.error, refused.headers['retry-after']],
    [429, { ...refused.body.error, code: 'rate_limited', details: { reason: 'disk_full', retry_after_seconds: 1 } }, '1'],
  )
  await neighbourIsWell()
  const removed = await client.tool(hostile, '/files?path=/home/user/big', { method: 'DELETE' })
  assert.equal(removed.status, 204)
  const written = await client.tool(hostile, '/files?path=/home/user/more', { method: 'PUT', bytes: Buffer.alloc(1 << 20) })
  assert.equal(written.status, 200)
})

test('a guest that forks without end harms neither its neighbour nor the service', async () => {
  await client.tool(hostile, '/exec', { json: { session_id: 'bomb', argv: ['bash', '-c', ':(){ :|:& };:'], timeout_ms: 20_000 } })
  for (let turn = 0; turn < 10; turn++) await neighbourIsWell()
  const { status } = await client.api('/v1/workspaces')
  assert.equal(status, 200)
  const suspended = await client.operate(`/v1/workspaces/${neighbour.id}/suspend`)
  assert.equal(suspended.state, 'succeeded')
  neighbour = await client.open('neighbour')
  const gone = await client.operate(`/v1/workspaces/${hostile.id}`, { method: 'DELETE' })
  assert.equal(gone.state, 'succeeded')
})
