import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { after, before, test } from 'node:test'
import { createClient, ndjson, send, type Client, type OpenedWorkspace, type OutputEvent } from '../support/client.ts'
import { isLong } from '../support/depth.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  // Retained output is limited to a quarter of this disk.
  workspace = await client.open('exec', { caps: { disk_gib: 1 } })
})
after(async () => {
  await service.stop()
})

interface Record {
  session_id: string
  state: string
  error: string | null
  pid: number | null
  stdout_bytes: number
  stdout_available_from: number
  started_at: string | null
  ended_at: string | null
  [field: string]: unknown
}

const start = (json: object) => client.tool<Record>(workspace, '/exec', { json })
const status = async (id: string) => (await client.tool<Record>(workspace, `/exec/${id}`)).body
const open = (id: string, query = '') =>
  send(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/${id}/output${query}`, { token: workspace.token })

async function eventsOf(id: string, query = ''): Promise<OutputEvent[]> {
  return all(ndjson(await open(id, query)))
}
async function all(events: AsyncIterable<OutputEvent>): Promise<OutputEvent[]> {
  const list: OutputEvent[] = []
  for await (const event of events) list.push(event)
  return list
}
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const bytesOf = (events: OutputEvent[]) =>
  Buffer.concat(events.filter(({ stream }) => stream === 'stdout').map(({ data }) => Buffer.from(data ?? '', 'base64')))

test('a command opens its own stdin, stdout and stderr by name, for each user', async () => {
  const argv = ['bash', '-c', 'cat /dev/stdin > /dev/stdout && tee /dev/stderr <<< again > /proc/self/fd/1']
  const body = { stdin: 'in\n' }
  // A user's second command may reuse pipes made for the first.
  for (const user of ['user', 'user', 'root', 'nobody', 'user']) {
    const { stdout, stderr, exit } = await client.run(workspace, argv, { ...body, user })
    assert.deepEqual({ user, stdout, stderr, exit_code: exit.exit_code }, { user, stdout: 'in\nagain\n', stderr: 'again\n', exit_code: 0 })
  }
})

test('the environment of the request overrides the guest environment, and its PATH finds the program', async () => {
  const { stdout } = await client.run(workspace, ['env'], { env: { LANG: 'POSIX', TOP: 'request', PATH: '/usr/bin' } })
  assert.deepEqual(stdout.trim().split('\n').sort(), [
    'HOME=/home/user',
    'LANG=POSIX',
    'LOGNAME=user',
    'PATH=/usr/bin',
    'SHELL=/bin/bash',
    'TOP=request',
    'USER=user',
  ])
})

const UNSTARTABLE: [string, object, RegExp][] = [
  ['a directory that is none', { argv: ['true'], cwd: '/etc/passwd' }, /working directory "\/etc\/passwd": not a directory/],
  ['a missing directory', { argv: ['true'], cwd: '/nowhere' }, /working directory "\/nowhere": not found/],
  ['a missing program', { argv: ['no-such-program'] }, /program "no-such-program": not found/],
  ['an unknown user', { argv: ['true'], user: 'nobody-here' }, /user "nobody-here" does not exist/],
]
for (const [what, json, why] of UNSTARTABLE) {
  test(`${what} is 201 failed_to_start, and the stream says only exit`, async () => {
    const { status: answered, body } = await start(json)
    assert.equal(answered, 201)
    assert.match(body.error ?? '', why)
    assert.deepEqual([body.state, body.pid, body['exit_code'], body.started_at], ['failed_to_start', null, null, null])
    assert.deepEqual(
      (await eventsOf(body.session_id)).map(({ type, state }) => [type, state]),
      [['exit', 'failed_to_start']],
    )
  })
}

test('the record describes a command completely, while it runs and after a signal ended it', async () => {
  const running = (await start({ session_id: 'whole', argv: ['bash', '-c', 'printf 12345; printf 678 >&2; sleep 100'] })).body
  const events = ndjson(await open('whole'))
  for (let seen = 0; seen < 2;) if ((await events.next()).value?.type === 'output') seen += 1
  const { pid, started_at, ended_at, ...rest } = await status('whole')
  assert.deepEqual([pid, started_at, ended_at], [running.pid, running.started_at, null])
  const fixed = { argv: ['bash', '-c', 'printf 12345; printf 678 >&2; sleep 100'], cwd: '/home/user', error: null, session_id: 'whole', user: 'user' } // prettier-ignore
  const offsets = { stdout_bytes: 5, stderr_bytes: 3, stdout_available_from: 0, stderr_available_from: 0 }
  assert.deepEqual(rest, { ...fixed, ...offsets, state: 'running', exit_code: null, term_signal: null, timed_out: false })
  await client.tool(workspace, '/exec/whole/cancel', { method: 'POST', json: {} })
  const exit = (await all(events)).at(-1)
  const ended = await status('whole')
  assert.deepEqual([ended.state, ended['exit_code'], ended['term_signal'], ended['timed_out']], ['exited', -1, 'SIGTERM', false])
  assert.deepEqual([exit?.type, exit?.['ended_at'], exit?.['term_signal']], ['exit', ended.ended_at, 'SIGTERM'])
  assert.ok(Date.parse(ended.ended_at ?? '') >= Date.parse(ended.started_at ?? ''))
})

test('concurrent requests with one id start one command, and another request with the id is operation_id_reused', async () => {
  const json = { session_id: 'once', argv: ['bash', '-c', 'echo x >> /home/user/ran'] }
  const answers = await Promise.all(Array.from({ length: 8 }, () => start(json)))
  assert.deepEqual(answers.map((answer) => answer.status).sort(), [200, 200, 200, 200, 200, 200, 200, 201])
  await eventsOf('once')
  assert.equal((await client.run(workspace, ['cat', '/home/user/ran'])).stdout, 'x\n')
  const reused = await start({ ...json, argv: ['true'] })
  assert.deepEqual(
    [reused.status, (reused.body['error'] as unknown as { details: object }).details],
    [409, { reason: 'operation_id_reused' }],
  )
})

test('1 MiB of stdin arrives and ends', async () => {
  const stdin = Buffer.alloc(1 << 20, 'stdin of a command\n')
  const { stdout } = await client.run(workspace, ['sha256sum'], { stdin: stdin.toString('base64'), stdin_encoding: 'base64' })
  assert.equal(stdout, `${sha256(stdin)}  -\n`)
})

test('a timeout kills grandchildren that ignore SIGTERM after the grace, also if their leader has exited; setsid escapes', async () => {
  const line = `trap 'exit 7' TERM; (trap '' TERM; exec sleep 31415) & setsid sleep 27182 & wait`
  const { exit } = await client.run(workspace, ['bash', '-c', line], { timeout_ms: 5000, kill_grace_ms: 300 }) // enough time for all of them to run
  assert.deepEqual([exit.exit_code, exit.timed_out], [7, true])
  const gone = 'for i in $(seq 600); do pgrep -f "^sleep 31415" || break; sleep 0.05; done >/dev/null; pgrep -fa "^sleep"'
  assert.match((await client.run(workspace, ['bash', '-c', gone])).stdout, /^\d+ sleep 27182\n$/)
  await client.run(workspace, ['pkill', '-f', '^sleep 27182'])
})

test('a grace of 0 kills a process that ignores SIGTERM at once', async () => {
  const argv = ['bash', '-c', "trap '' TERM; while :; do :; done"]
  const { exit, session_id } = await client.run(workspace, argv, { timeout_ms: 3000, kill_grace_ms: 0 }) // enough time for it to ignore signals
  assert.deepEqual([exit.exit_code, exit.term_signal, exit.timed_out], [-1, 'SIGKILL', true])
  const { started_at, ended_at } = await status(session_id)
  const ran_ms = Date.parse(ended_at ?? '') - Date.parse(started_at ?? '')
  assert.ok(ran_ms < 7500, `${ran_ms} ms: the default grace would be 5 s`)
})

// Long run only: writes 300 MB. The agent's own tests prove it with less.
if (isLong) test('expired output is output_expired with the first available offset, and the output from there is exact', outgrowsTheBound)

async function outgrowsTheBound(): Promise<void> {
  const line =
    'i=0; while [ $i -lt 30 ]; do head -c 10000000 /dev/zero | tr "\\0" "$(printf \\\\$(printf %o $((97 + i % 26))))"; i=$((i+1)); done'
  const { body } = await start({ session_id: 'bounded', argv: ['bash', '-c', line] })
  while ((await status(body.session_id)).state === 'running')
    await eventsOf(body.session_id, `?stdout_offset=${(await status(body.session_id)).stdout_bytes}`)
  const { stdout_bytes, stdout_available_from: from } = await status(body.session_id)
  assert.equal(stdout_bytes, 300_000_000)
  assert.ok(from >= 300_000_000 - (192 << 20) && from < 300_000_000 - (150 << 20), `retained from ${from}`)
  const [error, ...rest] = (await eventsOf(body.session_id)) as { type: string; error?: { code: string; details: object } }[]
  assert.deepEqual(
    [error?.type, error?.error?.code, error?.error?.details, rest],
    ['error', 'conflict', { reason: 'output_expired', stream: 'stdout', available_from: from }, []],
  )
  const tail = bytesOf(await eventsOf(body.session_id, `?stdout_offset=${from}`))
  assert.equal(tail.length, stdout_bytes - from)
  const letter = (offset: number) => 97 + (Math.floor(offset / 10_000_000) % 26)
  for (let at = 0; at < tail.length; at += 999_983) assert.equal(tail[at], letter(from + at), `byte ${from + at}`)
}

test('ten followers of different speeds get the same bytes', async () => {
  const { body } = await start({ argv: ['bash', '-c', 'for i in $(seq 40); do head -c 100000 /dev/urandom; sleep 0.01; done'] })
  const follow = async (delay_ms: number) => {
    const hash = createHash('sha256')
    let next = 0
    for await (const event of ndjson(await open(body.session_id))) {
      if (event.type !== 'output') continue
      assert.equal(event.offset, next)
      const bytes = Buffer.from(event.data ?? '', 'base64')
      hash.update(bytes)
      next += bytes.length
      if (delay_ms > 0) await pause(delay_ms)
    }
    return `${next} ${hash.digest('hex')}`
  }
  const got = await Promise.all([0, 0, 0, 0, 0, 0, 5, 10, 15, 20].map(follow))
  assert.match(got[0] ?? '', /^4000000 /)
  assert.deepEqual(new Set(got).size, 1)
})
