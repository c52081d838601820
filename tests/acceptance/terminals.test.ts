import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { attach, type Attached, printed } from '../support/attached.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

interface Terminal {
  session_id: string
  state: string
  pid: number | null
  cols: number
  rows: number
  exit_code: number | null
  term_signal: string | null
  error: string | null
  output_bytes: number
  output_available_from: number
}

let service: SharedService
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('terminals')
})
after(() => service.stop())

let count = 0
async function opened(json: Record<string, unknown> = {}): Promise<{ id: string; terminal: Terminal }> {
  const id = `t${(count += 1)}`
  const { status, body } = await client.tool<Terminal>(workspace, '/pty', { json: { session_id: id, ...json } })
  assert.equal(status, 201, JSON.stringify(body))
  return { id, terminal: body }
}
const attached = (id: string, offset = 0) =>
  attach(`${workspace.endpoint}/v1/workspaces/${workspace.id}/pty/${id}/attach?offset=${offset}`, { token: workspace.token })
const record = async (id: string) => (await client.tool<Terminal>(workspace, `/pty/${id}`)).body
const type = (terminal: Attached, text: string) => terminal.say({ type: 'input', data: Buffer.from(text, 'latin1').toString('base64') })
async function shell(): Promise<{ id: string; terminal: Attached; ask: (line: string, answer?: RegExp) => Promise<string> }> {
  const { id } = await opened({ argv: ['bash', '--norc', '--noprofile'], env: { PS1: 'ready> ' } })
  const terminal = await attached(id)
  await terminal.until(/ready> /)
  const ask = async (line: string, answer = /ready> $/) => {
    type(terminal, `${line}\n`)
    return terminal.until(answer)
  }
  return { id, terminal, ask }
}
/** Waits for `sleep`: a shell that is forking, and its new child, ignore ctrl-C. */
async function sleeping(seconds: number) {
  const found = await client.run(workspace, ['sh', '-c', `until pgrep -fx "sleep ${seconds}"; do :; done`], { timeout_ms: 120_000 })
  assert.equal(found.exit.exit_code, 0)
}
async function ended(terminal: Attached) {
  const events = await terminal.rest()
  const { code } = await terminal.closed
  const last = events.at(-1)
  return { code, type: last?.type, exit_code: last?.['exit_code'], term_signal: last?.['term_signal'], text: events.map(printed).join('') }
}

test('the default program is the login shell of the user on its own terminal', { timeout: patience(300_000) }, async () => {
  const { id, terminal } = await opened({ cols: 100, rows: 30 })
  assert.deepEqual([terminal.state, terminal.cols, terminal.rows, typeof terminal.pid], ['running', 100, 30, 'number'])
  const screen = await attached(id)
  type(
    screen,
    'echo $(id -un) $(pwd) $TERM $(stty size) $(tty | cut -c1-9) $(shopt login_shell | cut -f2) $BASHPID $$-; ls -1 /proc/self/fd | wc -l\n',
  )
  const text = await screen.until(/-\r\n\d+\r\n/)
  assert.match(text, /user \/home\/user xterm-256color 30 100 \/dev\/pts\/ on \d+ \d+-\r\n4\r\n$/)
  type(screen, 'exit 7\n')
  const { code, exit_code } = await ended(screen)
  assert.deepEqual([code, exit_code], [1000, 7])
  const { state, exit_code: kept, pid } = await record(id)
  assert.deepEqual([state, kept, pid], ['exited', 7, terminal.pid])
})

test(
  'a terminal has the environment of a command, and is the controlling terminal of its program',
  { timeout: patience(300_000) },
  async () => {
    const argv = ['sh', '-c', 'echo $LANG $OWN $TERM; ps -o tty= -p $$; test -t 0 && test -t 1 && test -t 2 && echo tty > /dev/tty']
    const { id } = await opened({ argv, env: { OWN: 'request', TERM: 'vt100' }, user: 'root', cwd: '/' })
    const { text, code } = await ended(await attached(id))
    assert.match(text, /^C\.UTF-8 request vt100\r\n/)
    assert.match(text, /\r\ntty\r\n$/)
    assert.equal(code, 1000)
  },
)

test('an id opens one terminal: the same request returns it, another is operation_id_reused', { timeout: patience(300_000) }, async () => {
  const argv = ['sleep', '1000']
  const { id, terminal } = await opened({ argv })
  const again = await client.tool<Terminal>(workspace, '/pty', { json: { session_id: id, argv } })
  assert.deepEqual([again.status, again.body.pid], [200, terminal.pid])
  const other = await client.tool<{ error: { code: string; details: object } }>(workspace, '/pty', {
    json: { session_id: id, argv, cols: 81 },
  })
  assert.deepEqual([other.status, other.body.error.code, other.body.error.details], [409, 'conflict', { reason: 'operation_id_reused' }])
  await client.tool(workspace, `/pty/${id}`, { method: 'DELETE' })
  assert.deepEqual(await ended(await attached(id)).then(({ type, term_signal }) => [type, term_signal]), ['exit', 'SIGHUP'])
})

test('a terminal whose program cannot start has the reason, and its stream is only the exit', { timeout: patience(300_000) }, async () => {
  for (const [json, why] of [
    [{ argv: ['no-such-program'] }, /not found/],
    [{ cwd: '/nowhere' }, /\/nowhere/],
    [{ user: 'nobody-here' }, /nobody-here/],
  ] as const) {
    const { id, terminal } = await opened(json)
    assert.deepEqual([terminal.state, terminal.pid, terminal.exit_code], ['failed_to_start', null, null])
    assert.match(terminal.error ?? '', why)
    const events = await (await attached(id)).rest()
    assert.deepEqual(
      events.map(({ type }) => type),
      ['exit'],
    )
  }
})

test('ctrl-C interrupts, ctrl-Z stops, fg continues, ctrl-D ends', { timeout: patience(300_000) }, async () => {
  const { terminal, ask } = await shell()
  type(terminal, 'sleep 1000; echo code $?\n')
  await terminal.until(/\n/)
  await sleeping(1000)
  type(terminal, '\x03')
  await terminal.until(/ready> $/)
  assert.match(await ask('echo code $?'), /code 130\r\n/)
  // One process without an exec: the engine loses a stop signal during an execve.
  type(terminal, 'sh -c "echo begun; while read line; do echo got \\$line; done"\n')
  await terminal.until(/begun\r\n/)
  type(terminal, '\x1a')
  assert.match(await terminal.until(/ready> $/), /Stopped/)
  type(terminal, 'fg\n')
  await terminal.until(/done"\r\n/)
  type(terminal, 'through\n')
  await terminal.until(/got through\r\n/)
  type(terminal, '\x04')
  await terminal.until(/ready> $/)
  type(terminal, '\x04')
  assert.equal((await ended(terminal)).exit_code, 0)
})

test('a new size reaches the foreground program by SIGWINCH, over HTTP as over the socket', { timeout: patience(300_000) }, async () => {
  // A Python program, because a shell loses a signal that arrives while its trap runs.
  const program = `import os, signal, time
def tell(*_):
    size = os.get_terminal_size()
    os.write(1, b"%d %d\\n" % (size.lines, size.columns)) # print may be interrupted in itself
signal.signal(signal.SIGWINCH, tell)
print("ready", flush=True)
while True:
    time.sleep(0.1)`
  const { id } = await opened({ argv: ['python3', '-c', program] })
  const terminal = await attached(id)
  await terminal.until(/ready/)
  terminal.say({ type: 'resize', cols: 111, rows: 33 })
  await terminal.until(/33 111\r\n/)
  const resized = await client.tool<Terminal>(workspace, `/pty/${id}/resize`, { json: { cols: 112, rows: 34 } })
  assert.deepEqual([resized.status, resized.body.cols, resized.body.rows], [200, 112, 34])
  await terminal.until(/34 112\r\n/)
  await client.tool(workspace, `/pty/${id}`, { method: 'DELETE' })
  await ended(terminal)
})

test('input over HTTP is typed, and an ended terminal refuses input', { timeout: patience(300_000) }, async () => {
  const { id, terminal } = await shell()
  const typed = await client.tool(workspace, `/pty/${id}/input`, { json: { data: Buffer.from('echo a${x}b; exit\n').toString('base64') } })
  assert.equal(typed.status, 200)
  assert.match((await ended(terminal)).text, /\rab\r\n/)
  const late = await client.tool<{ error: { code: string } }>(workspace, `/pty/${id}/input`, { json: { data: 'eA==' } })
  assert.deepEqual([late.status, late.body.error.code], [409, 'conflict'])
})

test(
  'a close hangs up programs and their jobs, kills those that ignore it after the grace, and leaves programs that left by setsid',
  { timeout: patience(300_000) },
  async () => {
    const { id, terminal, ask } = await shell()
    await ask('sleep 2001 &')
    await ask('(trap "" HUP; exec sleep 2002) &')
    await ask('setsid sleep 2003 &')
    type(terminal, 'trap "" HUP; sh -c "echo begun; exec sleep 2004"\n')
    await terminal.until(/begun\r\n/)
    for (const seconds of [2001, 2002, 2003, 2004]) await sleeping(seconds)
    const started = performance.now()
    assert.equal((await client.tool(workspace, `/pty/${id}`, { method: 'DELETE' })).status, 200)
    const { type: last, term_signal } = await ended(terminal)
    const took_ms = performance.now() - started
    assert.deepEqual([last, term_signal], ['exit', 'SIGKILL'])
    assert.ok(took_ms > 4000 && took_ms < 60_000, `${took_ms} ms`)
    const ends = 'for i in $(seq 300); do [ "$(pgrep -fc "^sleep 200[0-9]")" -gt 1 ] || break; sleep 0.1; done; pgrep -af "^sleep 200[0-9]"'
    const left = await client.run(workspace, ['sh', '-c', ends])
    assert.match(left.stdout, /^\d+ sleep 2003\n$/)
    await client.run(workspace, ['pkill', '-f', '^sleep 200'])
  },
)

test('output can be read again by offset, and an offset beyond the end is refused', { timeout: patience(300_000) }, async () => {
  const { id } = await opened({ argv: ['seq', '1', '50000'] })
  const first = await ended(await attached(id))
  assert.equal(first.text, Array.from({ length: 50_000 }, (_, i) => `${i + 1}\r\n`).join(''))
  const { output_bytes, output_available_from } = await record(id)
  assert.deepEqual([output_bytes, output_available_from], [first.text.length, 0])
  assert.equal((await ended(await attached(id, output_bytes - 7))).text, '50000\r\n')
  assert.equal((await ended(await attached(id, output_bytes + 1))).code, 4400)
})

test('two clients of one terminal see the same bytes, and both may type', { timeout: patience(300_000) }, async () => {
  const { id, terminal } = await shell()
  const second = await attached(id)
  await second.until(/ready> /)
  type(second, 'echo from${x}second\n')
  await terminal.until(/\rfromsecond\r\n/)
  type(terminal, 'echo from${x}first; exit\n')
  assert.match((await ended(second)).text, /\rfromsecond\r\n[^]*\rfromfirst\r\n/)
  assert.match((await ended(terminal)).text, /\rfromfirst\r\n/)
})

test('an attached terminal counts as activity for as long as it is attached', { timeout: patience(300_000) }, async () => {
  const { id } = await opened({ argv: ['sleep', '1000'] })
  const terminal = await attached(id)
  type(terminal, 'x')
  await terminal.until(/x/)
  const activeAt = async () =>
    Date.parse((await client.tool<{ recent_activity: { active_at: string } }>(workspace, '/idle')).body.recent_activity.active_at)
  const typed_at = Date.now()
  while ((await activeAt()) < typed_at) await new Promise((resolve) => setTimeout(resolve, 200)) // the service stores the time of the last activity every few seconds
  terminal.socket.close()
  await terminal.closed
  await client.tool(workspace, `/pty/${id}`, { method: 'DELETE' })
})

test('a terminal survives suspend and resume with its memory, and continues at its offset', { timeout: patience(300_000) }, async () => {
  const { id, terminal, ask } = await shell()
  await ask('kept=$RANDOM$RANDOM; echo is $kept')
  const { output_bytes, pid } = await record(id)
  for (const verb of ['suspend', 'resume'])
    assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/${verb}`)).state, 'succeeded')
  assert.deepEqual((await ended(terminal)).code, 4409)
  workspace = { ...workspace, token: await client.token(workspace.id) }
  const before = (await attachedText(id)).match(/\ris (\d+)\r\n/)?.[1]
  const again = await attached(id, output_bytes)
  type(again, 'echo still ${kept}-$$; stty size\n')
  assert.match(await again.until(/ready> $/), new RegExp(`\\rstill ${before}-${pid}\\r\\n24 80\\r\\n`))
  type(again, 'sleep 3000\n')
  await sleeping(3000)
  type(again, '\x03')
  await again.until(/ready> $/)
  type(again, 'exit\n')
  assert.equal((await ended(again)).type, 'exit')
})
async function attachedText(id: string): Promise<string> {
  const reader = await attached(id)
  const text = await reader.until(/\ris \d+\r\n/)
  reader.socket.close()
  return text
}

test('a flood of input is accepted as fast as the program reads it, and every byte arrives', { timeout: patience(300_000) }, async () => {
  const bytes = 3 << 20
  const { id } = await opened({ argv: ['sh', '-c', `stty raw -echo; echo ready; head -c ${bytes} | sha256sum`] })
  const terminal = await attached(id)
  await terminal.until(/ready/)
  const piece = Buffer.alloc(48 << 10, 'abcdefgh')
  for (let sent = 0; sent < bytes; sent += piece.length)
    terminal.say({ type: 'input', data: piece.subarray(0, bytes - sent).toString('base64') })
  const { createHash } = await import('node:crypto')
  const wanted = createHash('sha256').update(Buffer.alloc(bytes, 'abcdefgh')).digest('hex')
  assert.ok((await ended(terminal)).text.includes(wanted))
})
