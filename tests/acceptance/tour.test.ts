import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { printedBy, readTour } from '../support/readme.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace
let counter: string

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

const counterReached = async (at: OpenedWorkspace) => Number((await client.run(at, ['cat', '/home/user/count'])).stdout)

test('an open of a new key returns 200 with a running workspace and a tool token', async () => {
  const { status, headers, body } = await client.api('/v1/workspaces/open', {
    json: { key: 'steps', template: 'base' },
    headers: { prefer: 'wait=20', 'idempotency-key': 'steps-1' },
  })
  const opened = body as { workspace: Record<string, unknown>; operation: { kind: string; state: string } }
  assert.equal(status, 200)
  assert.equal(headers['preference-applied'], 'wait=20')
  assert.equal(opened.workspace['observed_state'], 'running')
  assert.equal(opened.workspace['ready'], true)
  assert.deepEqual([opened.operation.kind, opened.operation.state], ['open', 'succeeded'])
  workspace = await client.open('steps')
  assert.equal(workspace.id, opened.workspace['id'])
  assert.equal(workspace.operation_id, null, 'a reopened running workspace has no operation')
})

test('a command runs without a shell as the user, and its exit code is returned', async () => {
  const { stdout, exit } = await client.run(workspace, ['bash', '-c', 'id -un; pwd; echo to-stderr >&2; exit 7'])
  assert.equal(stdout, 'user\n/home/user\n')
  assert.equal(exit.exit_code, 7)
  assert.equal(exit.state, 'exited')
})

test('the template has the programs that it promises', async () => {
  const { stdout, stderr } = await client.run(workspace, [
    'bash',
    '-c',
    'node --version && npm --version >/dev/null && python3 --version && git --version && curl --version >/dev/null && rg --version >/dev/null && sudo id -u',
  ])
  assert.match(stdout, /^v24\.\d+\.\d+\nPython 3\.\d+\.\d+\ngit version .*\n0\n$/, stderr)
})

test('a written file is durable and reads back byte for byte', async () => {
  const bytes = Buffer.from('héllo\0berth\n')
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const written = await client.tool(workspace, '/files?path=/home/user/notes/hello.bin&create_parents=true', { method: 'PUT', bytes })
  assert.equal(written.status, 200)
  assert.deepEqual(written.body, {
    path: '/home/user/notes/hello.bin',
    bytes_written: bytes.length,
    sha256,
    durable: true,
    revision: sha256,
  })
  const read = await client.tool(workspace, '/files?path=/home/user/notes/hello.bin')
  assert.equal(read.headers['x-file-revision'], sha256)
  assert.equal(read.headers['x-file-size'], String(bytes.length))
  assert.deepEqual(read.bytes, bytes)
})

test('a suspend keeps memory, processes and disk, and a resume continues from them', async () => {
  const started = await client.tool<{ session_id: string }>(workspace, '/exec', {
    json: {
      session_id: 'counter',
      argv: ['bash', '-c', 'i=0; while true; do i=$((i+1)); echo $i > count.new; mv count.new count; echo $i; sleep 0.05; done'],
    },
  })
  assert.equal(started.status, 201)
  counter = started.body.session_id
  await client.run(workspace, ['bash', '-c', 'until [ "$(cat /home/user/count 2>/dev/null || echo 0)" -gt 3 ]; do sleep 0.05; done'])

  const suspended = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.equal(suspended.state, 'succeeded')
  assert.equal(typeof suspended.result?.['checkpoint_id'], 'string')
  const view = await client.api(`/v1/workspaces/${workspace.id}`)
  assert.equal(view.body['observed_state'], 'suspended')
  const refused = await client.tool<{ error: { code: string } }>(workspace, '/exec', { json: { argv: ['true'] } })
  assert.deepEqual([refused.status, refused.body.error.code], [409, 'stale_epoch'])

  const resumed = await client.api<{ workspace: { observed_state: string }; tool_token: { token: string } }>(
    `/v1/workspaces/${workspace.id}/resume`,
    {
      method: 'POST',
      headers: { prefer: 'wait=20' },
    },
  )
  assert.equal(resumed.status, 200)
  assert.equal(resumed.body.workspace.observed_state, 'running')
  const old = workspace
  workspace = { ...workspace, token: resumed.body.tool_token.token }
  const stale = await client.tool<{ error: { code: string } }>(old, '/files/stat?path=/home/user')
  assert.equal(stale.body.error.code, 'stale_epoch')

  const status = await client.tool<{ state: string }>(workspace, `/exec/${counter}`)
  assert.equal(status.body.state, 'running')
  const reached = await counterReached(workspace)
  await client.run(workspace, ['bash', '-c', `until [ "$(cat /home/user/count)" -gt ${reached + 3} ]; do sleep 0.05; done`])
})

test('the output of a command over a suspend has no gap and no repeated byte', async () => {
  const stopped = await client.tool(workspace, `/exec/${counter}/cancel`, { method: 'POST' })
  assert.equal(stopped.status, 200)
  const output = await client.tool(workspace, `/exec/${counter}/output`)
  const events = output.bytes
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; data?: string })
  const lines = Buffer.concat(events.filter(({ type }) => type === 'output').map(({ data }) => Buffer.from(data ?? '', 'base64')))
    .toString()
    .trim()
    .split('\n')
  assert.deepEqual(
    lines,
    lines.map((_, i) => String(i + 1)),
  )
  assert.equal(events.at(-1)?.type, 'exit')
})

test('a fork is another machine with the same memory and files, and shares no later change', async () => {
  await client.tool(workspace, '/exec', {
    json: {
      session_id: 'memory',
      argv: [
        'python3',
        '-c',
        'import time,os\nx=os.urandom(8).hex()\nopen("/home/user/secret","w").write(x)\nwhile True:\n open("/home/user/new","w").write(x); os.rename("/home/user/new","/home/user/told"); time.sleep(0.05)',
      ],
    },
  })
  await client.run(workspace, ['bash', '-c', 'until [ -s /home/user/told ]; do sleep 0.05; done'])
  const forked = await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'steps-fork' } })
  assert.equal(forked.state, 'succeeded')
  const child = await client.open('steps-fork')
  assert.notEqual(child.id, workspace.id)
  await client.run(child, ['bash', '-c', 'rm /home/user/told; until [ -s /home/user/told ]; do sleep 0.05; done'])
  const [told, secret] = [
    (await client.run(child, ['cat', '/home/user/told'])).stdout,
    (await client.run(workspace, ['cat', '/home/user/secret'])).stdout,
  ]
  assert.equal(told, secret, 'the process of the fork remembers what its source knew')
  await client.run(child, ['bash', '-c', 'echo child > /home/user/who'])
  const absent = await client.tool<{ error: { code: string } }>(workspace, '/files?path=/home/user/who')
  assert.deepEqual([absent.status, absent.body.error.code], [404, 'not_found'])
  const names = await Promise.all(
    [child, workspace].map(async (at) => (await client.run(at, ['bash', '-c', 'hostname; cat /etc/machine-id'])).stdout),
  )
  assert.notEqual(names[0], names[1])
})

test('a deleted workspace stays as a tombstone, its tool calls are refused, and its key is never reused', async () => {
  const deleted = await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
  assert.equal(deleted.state, 'succeeded')
  const view = await client.api(`/v1/workspaces/${workspace.id}`)
  assert.equal(view.body['observed_state'], 'deleted')
  assert.notEqual(view.body['deleted_at'], null)
  const refused = await client.tool<{ error: { code: string; details: { reason: string } } }>(workspace, '/exec', {
    json: { argv: ['true'] },
  })
  assert.deepEqual([refused.status, refused.body.error.details.reason], [401, 'revoked_workspace'])
  const reopened = await client.api<{ error: { code: string; details: { reason: string } } }>('/v1/workspaces/open', {
    json: { key: 'steps', template: 'base' },
  })
  assert.deepEqual([reopened.status, reopened.body.error.details.reason], [409, 'workspace_deleted'])
})

test("the README's tour prints what it says", async () => {
  const tour = readTour()
  assert.equal(await printedBy(tour, service), tour.prints)
})
