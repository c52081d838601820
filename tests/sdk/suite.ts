import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import {
  type Berth,
  BerthError,
  CommandError,
  ConflictError,
  DeadlineError,
  NotFoundError,
  type Workspace,
} from '../../sdk/typescript/src/main.ts'
import { patience } from '../support/patience.ts'

/** A real machine runs these scripts with `sh -c`; without one, a test plays them. */
export const SCRIPTS = {
  both: 'echo out; echo err >&2; exit 3',
  lines: 'for i in 1 2 3; do echo line $i; done',
  long: 'echo begun; sleep 600',
  mark: 'echo x >> /home/user/marks; echo marked',
} as const

export interface Stage {
  stdout(text: string): void
  stderr(text: string): void
  append(path: string, text: string): void
  cancelled: Promise<unknown>
}

export async function play(script: string, { stdout, stderr, append, cancelled }: Stage): Promise<number> {
  switch (script) {
    case SCRIPTS.both:
      stdout('out\n')
      stderr('err\n')
      return 3
    case SCRIPTS.lines:
      for (const i of [1, 2, 3]) stdout(`line ${i}\n`)
      return 0
    case SCRIPTS.long:
      stdout('begun\n')
      await cancelled
      return -1
    case SCRIPTS.mark:
      append('/home/user/marks', 'x\n')
      stdout('marked\n')
      return 0
  }
  throw new Error(`nobody plays ${script}`)
}

const sh = (script: string) => ['sh', '-c', script]

export function sdkSuite(
  where: string,
  setup: () => { berth: Berth; secret: string },
  can: { terminals: boolean; forks: boolean; files: boolean } = { terminals: true, forks: true, files: true },
): void {
  let count = 0
  const opened = (): Promise<Workspace> => setup().berth.open(`sdk-${(count += 1)}`, { template: 'base' })
  const it = (fact: string, check: (ws: Workspace) => Promise<void>) =>
    test(`${where}: ${fact}`, { timeout: patience(240_000) }, async () => check(await opened()))

  void it('a command has its text, bytes and exit code', async (ws) => {
    const { stdout, stderr, exitCode, ok, state, stderrBytes } = await ws.exec(sh(SCRIPTS.both))
    assert.deepEqual([stdout, stderr, exitCode, ok, state, stderrBytes.length], ['out\n', 'err\n', 3, false, 'exited', 4])
  })

  void it('output streams in order, with offsets, and again from an offset', async (ws) => {
    const command = await ws.start(sh(SCRIPTS.lines))
    let text = ''
    for await (const chunk of command) {
      assert.equal(chunk.offset, text.length)
      text += chunk.text
    }
    assert.equal(text, 'line 1\nline 2\nline 3\n')
    const rest = []
    for await (const chunk of ws.command(command.id).output({ stdout_offset: 14 })) rest.push(chunk.text)
    assert.equal(rest.join(''), 'line 3\n')
  })

  void it('what a command has written so far is read without waiting for more', async (ws) => {
    const command = await ws.start(sh(SCRIPTS.long))
    for await (const { text } of command) {
      assert.equal(text, 'begun\n')
      break
    }
    const so_far = []
    for await (const { text } of command.output({ follow: false })) so_far.push(text)
    assert.equal(so_far.join(''), 'begun\n')
    await command.cancel()
  })

  void it('a command that cannot start throws, unless check is false', async (ws) => {
    await assert.rejects(
      ws.exec(['no-such-program']),
      (error) => error instanceof CommandError && error.result.state === 'failed_to_start' && error.message.includes('could not start'),
    )
    const result = await ws.exec(['no-such-program'], { check: false })
    assert.deepEqual([result.state, result.ok, result.exitCode], ['failed_to_start', false, null])
    assert.ok(result.error)
  })

  void it('a command that fails throws where check is true, with its exit code and the end of stderr', async (ws) => {
    assert.equal((await ws.exec(sh(SCRIPTS.both))).exitCode, 3)
    await assert.rejects(
      ws.exec(sh(SCRIPTS.both), { check: true }),
      (error) =>
        error instanceof CommandError && error.result.exitCode === 3 && error.message === 'The command ended with exit code 3: err',
    )
  })

  void it('a line is run by a login shell', async (ws) => {
    assert.equal((await ws.exec(SCRIPTS.lines)).stdout, 'line 1\nline 2\nline 3\n')
    assert.equal((await (await ws.start(SCRIPTS.both)).result()).exitCode, 3)
  })

  void it('a call whose time is over names its command, which goes on', async (ws) => {
    const error = await ws.exec(sh(SCRIPTS.long), { waitMs: 1500 }).catch((thrown: unknown) => thrown)
    assert.ok(error instanceof DeadlineError && error.sessionId !== null)
    const command = ws.command(error.sessionId)
    assert.equal((await command.status()).state, 'running')
    await command.cancel()
  })

  void it('an aborted command is cancelled', async (ws) => {
    const leaving = new AbortController()
    const reason = new Error('enough')
    const session_id = 'aborted'
    const onOutput = () => leaving.abort(reason)
    await assert.rejects(ws.exec(sh(SCRIPTS.long), { session_id, signal: leaving.signal, onOutput }), reason)
    const result = await ws.command(session_id).result()
    assert.deepEqual([result.stdout, result.ok, result.exitCode], ['begun\n', false, -1])
  })

  if (can.files)
    void it('files are written, read, listed, searched, patched, moved and removed', async (ws) => {
      const path = '/home/user/notes.txt'
      const written = await ws.files.write(path, 'one\ntwo\n')
      assert.deepEqual([written.bytes_written, written.durable], [8, true])
      assert.equal(await ws.files.readText(path), 'one\ntwo\n')
      assert.deepEqual([...(await ws.files.read(path, { offset: 4, length: 3 }))], [...Buffer.from('two')])
      await ws.files.patch(path, { edits: [{ old_text: 'two', new_text: 'three' }] })
      const { matches } = await ws.files.search({ path: '/home/user', pattern: 'three' })
      assert.deepEqual(matches.map((match) => [match.path, match.line]), [[path, 2]]) // prettier-ignore
      assert.equal((await ws.files.stat(path)).size, 10)
      await ws.files.move(path, '/home/user/moved.txt')
      assert.deepEqual([await ws.files.exists(path), await ws.files.exists('/home/user/moved.txt')], [false, true])
      assert.ok((await ws.files.list('/home/user')).entries.some(({ name }) => name === 'moved.txt'))
      await ws.files.remove('/home/user/moved.txt')
      assert.equal(await ws.files.exists('/home/user/moved.txt'), false)
    })

  if (can.files)
    void it('a file larger than one request is whole, and streams back', async (ws) => {
      const bytes = Buffer.alloc((7 << 20) + 12_345, 'berth')
      const written = await ws.files.write('/home/user/large', new Blob([bytes]))
      assert.deepEqual([written.path, written.bytes_written], ['/home/user/large', bytes.length])
      const parts: Uint8Array[] = []
      for await (const part of ws.files.stream('/home/user/large')) parts.push(part)
      assert.ok(Buffer.concat(parts).equals(bytes))
    })

  void it('a refusal is an error of its code, with reason and request id, and names no credential', async (ws) => {
    const { secret, berth } = setup()
    const error = await ws.files.read('/home/user/missing').then(
      () => undefined,
      (each: unknown) => each,
    )
    assert.ok(error instanceof NotFoundError)
    assert.deepEqual([error.code, error.reason, error.status, error.retryable], ['not_found', 'path_not_found', 404, false])
    assert.ok(error.requestId)
    for (const text of [
      inspect(error, { depth: 9 }),
      inspect(berth, { depth: 9, showHidden: true }),
      inspect(ws, { depth: 9 }),
      JSON.stringify(ws),
    ])
      assert.equal(text.includes(secret), false, text)
  })

  void it('a call on a suspended workspace resumes it, and runs once', async (ws) => {
    await ws.exec(sh(SCRIPTS.mark), { check: true })
    assert.equal((await ws.suspend()).state, 'succeeded')
    assert.equal((await ws.refresh()).observed_state, 'suspended')
    const { stdout } = await ws.exec(sh(SCRIPTS.mark), { check: true })
    assert.equal(stdout, 'marked\n')
    assert.equal(await ws.files.readText('/home/user/marks'), 'x\nx\n')
  })

  void it('a workspace that is not to be woken says that it does not run', async (ws) => {
    const still = await setup().berth.workspace(ws.id, { wake: false })
    await ws.suspend()
    await assert.rejects(still.exec(['true']), (error) => error instanceof BerthError && error.code === 'workspace_not_running')
  })

  void it('it is found by key and in lists, and its key is never used again', async (ws) => {
    const { berth } = setup()
    const found = await berth.find(ws.key)
    assert.equal(found?.id, ws.id)
    const views = await berth.workspaces({ key_prefix: ws.key }).all()
    assert.ok(views.some(({ id }) => id === ws.id))
    await ws.delete()
    await assert.rejects(
      berth.open(ws.key, { template: 'base' }),
      (error) => error instanceof ConflictError && error.reason === 'workspace_deleted',
    )
  })

  if (can.forks)
    void it('a fork goes on from the same files', async (ws) => {
      await ws.files.write('/home/user/before', 'shared')
      await using fork = await ws.fork(`${ws.key}-fork`)
      assert.notEqual(fork.id, ws.id)
      assert.equal(await fork.files.readText('/home/user/before'), 'shared')
    })

  if (can.terminals)
    void it('a terminal shows what is typed, is left and taken up again, and closes', async (ws) => {
      const shell = await ws.shell({ argv: ['cat'] })
      shell.write('hello\n')
      let shown = ''
      for await (const { text } of shell) {
        shown += text
        if (shown.includes('hello')) break
      }
      shell.detach()
      const again = ws.terminal(shell.id)
      shown = ''
      for await (const { text } of again) {
        shown += text
        if (shown.includes('hello')) break
      }
      await again.close()
      const last = ws.terminal(shell.id)
      for await (const { text } of last) shown += text
      assert.equal(last.ending?.state, 'exited')
    })
}
