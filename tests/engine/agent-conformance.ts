import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, suite, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'

/** `exit_code` null: the command runs until it is cancelled. */
export interface Played {
  stdout: string
  stderr: string
  exit_code: number | null
}

export interface AgentHarness {
  ask(method: string, path: string, body?: Buffer | object, key?: string): Promise<Response>
  play(session_id: string, played: Played): void
  close(): Promise<void>
}

const FRAME = { stdout: 1, stderr: 2, exit: 3, record: 6, header_bytes: 16 }
const RECORD = [
  'session_id', 'argv', 'cwd', 'user', 'state', 'pid', 'exit_code', 'term_signal', 'timed_out', 'started_at', 'ended_at', 'error',
  'stdout_bytes', 'stderr_bytes', 'stdout_available_from', 'stderr_available_from',
] // prettier-ignore

/** Every agent must pass, real or fake, because the gateway tests rely on the fake one. */
export function agentConformance(name: string, open: () => Promise<AgentHarness>): void {
  void suite(`agent: ${name}`, () => {
    let agent: AgentHarness
    before(async () => {
      agent = await open()
    })
    after(() => agent.close())

    const started = async (session_id: string, played: Played, query = '') => {
      const response = await agent.ask('POST', `/exec${query}`, requestOf(session_id, played))
      agent.play(session_id, played)
      return response
    }
    const framesOf = async (path: string) => readFrames(await agent.ask('GET', path))
    const said = async (method: string, path: string, body?: Buffer | object) => refusalOf(await agent.ask(method, path, body))

    test('an unknown key is 401', async () => {
      const response = await agent.ask('GET', '/exec/none', undefined, 'another-key')
      assert.deepEqual(await refusalOf(response), [401, 'unauthenticated', undefined, undefined])
    })

    test('a start answers 201 with the whole record; a repeat is 200, and another request under its id operation_id_reused', async () => {
      const played = { stdout: 'out', stderr: 'err', exit_code: 7 }
      const first = await started('started', played)
      const record = (await first.json()) as Record<string, unknown>
      assert.deepEqual([first.status, Object.keys(record).sort()], [201, RECORD.toSorted()])
      const asked = requestOf('started', played)
      const { session_id, argv, cwd, user, timed_out, error } = record
      assert.deepEqual(
        { session_id, argv, cwd, user, timed_out, error },
        { session_id: 'started', argv: asked.argv, cwd: '/', user: 'root', timed_out: false, error: null },
      )
      assert.equal(typeof record['pid'], 'number')
      const again = await agent.ask('POST', '/exec', asked)
      assert.deepEqual([again.status, ((await again.json()) as { pid: number }).pid], [200, record['pid']])
      assert.deepEqual(await said('POST', '/exec', { ...asked, fingerprint: 'another' }), [
        409,
        'conflict',
        'operation_id_reused',
        undefined,
      ])
    })

    test('output comes in frames from the requested offsets, and ends with the record', async () => {
      await started('printed', { stdout: 'first second', stderr: 'error', exit_code: 3 })
      assert.equal((await framesOf('/exec/printed/output')).at(-1)?.kind, FRAME.exit) // unwritten output cannot be requested
      const frames = await framesOf('/exec/printed/output?stdout_offset=6&stderr_offset=0')
      assert.deepEqual(joined(frames), { stdout: [6, 'second'], stderr: [0, 'error'] })
      const last = frames.at(-1)
      const record = JSON.parse(last?.data.toString() ?? '{}') as Record<string, unknown>
      assert.deepEqual([last?.kind, last?.offset, Object.keys(record).sort()], [FRAME.exit, 0, RECORD.toSorted()])
      const { state, exit_code, term_signal, stdout_bytes, stderr_bytes, stdout_available_from } = record
      assert.deepEqual([state, exit_code, term_signal, stdout_bytes, stderr_bytes, stdout_available_from], ['exited', 3, null, 12, 5, 0])
      for (const time of ['started_at', 'ended_at']) assert.match(String(record[time]), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      const status = (await (await agent.ask('GET', '/exec/printed')).json()) as object
      assert.deepEqual(status, record)
    })

    test('an offset beyond the end is refused, and one at the end of an ended command returns only the record', async () => {
      await started('short', { stdout: '12345', stderr: '', exit_code: 0 })
      assert.equal((await framesOf('/exec/short/output')).at(-1)?.kind, FRAME.exit)
      assert.deepEqual((await said('GET', '/exec/short/output?stdout_offset=6')).slice(0, 2), [400, 'bad_request'])
      const frames = await framesOf('/exec/short/output?stdout_offset=5')
      assert.deepEqual(
        frames.map(({ kind }) => kind),
        [FRAME.exit],
      )
    })

    test('a read without following ends at the end of the output, though the command runs', async () => {
      await started('runs', { stdout: 'so far', stderr: '', exit_code: null })
      let frames: Frame[] = []
      while (frames.length === 0) frames = await framesOf('/exec/runs/output?follow=false')
      assert.deepEqual([joined(frames), frames.at(-1)?.kind], [{ stdout: [0, 'so far'] }, FRAME.stdout])
      assert.equal((await agent.ask('POST', '/exec/runs/cancel')).status, 200)
      const [end] = await framesOf('/exec/runs/output?stdout_offset=6')
      const { state, exit_code } = JSON.parse(end?.data.toString() ?? '{}') as Record<string, unknown>
      assert.deepEqual([end?.kind, state, exit_code], [FRAME.exit, 'exited', -1])
    })

    test('a followed start answers with frames, the record first and once', async () => {
      const played = { stdout: 'followed', stderr: '', exit_code: 0 }
      const following = agent.ask('POST', '/exec?follow=true', requestOf('followed', played))
      const response = await following
      agent.play('followed', played)
      assert.deepEqual([response.status, response.headers.get('content-type')], [201, 'application/octet-stream'])
      const frames = await readFrames(response)
      assert.deepEqual(
        [frames[0]?.kind, frames.filter(({ kind }) => kind === FRAME.record).length, frames.at(-1)?.kind],
        [FRAME.record, 1, FRAME.exit],
      )
      assert.deepEqual(joined(frames), { stdout: [0, 'followed'] })
      const { session_id } = JSON.parse(frames[0]?.data.toString() ?? '{}') as Record<string, unknown>
      assert.equal(session_id, 'followed')
    })

    test('open stdin accepts each byte once and reports its offset', async () => {
      const played = { stdout: '', stderr: '', exit_code: null }
      const start = { ...requestOf('input', played), stdin_open: true, stdin_base64: Buffer.from('01').toString('base64') }
      assert.equal((await agent.ask('POST', '/exec', start)).status, 201)
      const write = (query: string, text: string) => agent.ask('POST', `/exec/input/stdin?${query}`, Buffer.from(text))
      const wrote = async (query: string, text: string) => (await write(query, text)).json()
      assert.deepEqual(await wrote('offset=2', '23'), { offset: 4, open: true })
      assert.deepEqual(await wrote('offset=2', '23'), { offset: 4, open: true })
      assert.deepEqual(await refusalOf(await write('offset=5', 'x')), [409, 'conflict', 'stdin_gap', { stdin_offset: 4 }])
      assert.deepEqual(await wrote('offset=3&close=true', '34'), { offset: 5, open: false })
      assert.deepEqual(await wrote('offset=3&close=true', '34'), { offset: 5, open: false })
      assert.deepEqual(await refusalOf(await write('offset=5', 'x')), [409, 'conflict', 'stdin_closed', { stdin_offset: 5 }])
      const { stdin } = (await (await agent.ask('GET', '/exec/input')).json()) as { stdin: object }
      assert.deepEqual(stdin, { offset: 5, open: false })
      assert.equal((await agent.ask('POST', '/exec/input/cancel')).status, 200)
    })

    test('commands are listed newest first, in pages and by state, with shortened records', async () => {
      for (const id of ['listed-1', 'listed-2']) {
        await started(id, { stdout: 'x', stderr: '', exit_code: 4 })
        assert.equal((await framesOf(`/exec/${id}/output`)).at(-1)?.kind, FRAME.exit)
        await setTimeout(5) // the next command begins in a later millisecond
      }
      await started('listed-3', { stdout: '', stderr: '', exit_code: null })
      interface Page {
        commands: Record<string, unknown>[]
        next_cursor: string | null
      }
      const list = async (query: string) => (await (await agent.ask('GET', `/exec?${query}`)).json()) as Page
      const first = await list('limit=2')
      assert.deepEqual(first.commands.map(({ session_id }) => session_id), ['listed-3', 'listed-2']) // prettier-ignore
      const next = await list(`limit=1&cursor=${first.next_cursor}`)
      assert.equal(next.commands[0]?.['session_id'], 'listed-1')
      const [running, ended] = first.commands
      const told = RECORD.filter((field) => !field.endsWith('_available_from'))
      assert.deepEqual(Object.keys(ended ?? {}).sort(), [...told, 'argv_truncated'].sort())
      assert.deepEqual([running?.['state'], ended?.['state'], ended?.['exit_code'], ended?.['stdout_bytes']], ['running', 'exited', 4, 1])
      const of = async (state: string) => (await list(`state=${state}&limit=200`)).commands.map(({ session_id }) => session_id)
      assert.deepEqual([(await of('running')).includes('listed-3'), (await of('ended')).includes('listed-3')], [true, false])
      assert.deepEqual([(await of('running')).includes('listed-2'), (await of('ended')).includes('listed-2')], [false, true])
      assert.equal((await agent.ask('POST', '/exec/listed-3/cancel')).status, 200)
    })

    test('a command that was never started is session_not_found for every call', async () => {
      for (const [method, path, body] of [
        ['GET', '/exec/absent'],
        ['GET', '/exec/absent/output'],
        ['POST', '/exec/absent/cancel'],
        ['POST', '/exec/absent/stdin?offset=0'],
        ['POST', '/exec/absent/signal', { signal: 'SIGTERM' }],
      ] as const)
        assert.deepEqual(await said(method, path, body), [404, 'not_found', 'session_not_found', undefined], path)
    })

    test('a file is written, appended to, read in parts, described, and removed', async () => {
      const path = '/files?path=/home/conformance'
      const written = await agent.ask('PUT', path, Buffer.from('0123456789'))
      const sum = (text: string) => createHash('sha256').update(text).digest('hex')
      assert.deepEqual(
        [written.status, await written.json()],
        [200, { path: '/home/conformance', bytes_written: 10, sha256: sum('0123456789'), durable: true, revision: sum('0123456789') }],
      )
      const appended = (await (await agent.ask('PUT', `${path}&append=true`, Buffer.from('+'))).json()) as object
      assert.deepEqual(appended, {
        path: '/home/conformance',
        bytes_written: 1,
        sha256: sum('+'),
        durable: true,
        revision: sum('0123456789+'),
      })
      const whole = await agent.ask('GET', `${path}&revision=true`)
      assert.deepEqual(
        [whole.status, whole.headers.get('x-file-size'), whole.headers.get('x-file-revision'), await whole.text()],
        [200, '11', sum('0123456789+'), '0123456789+'],
      )
      const part = await agent.ask('GET', `${path}&offset=2&length=3`)
      assert.deepEqual([part.status, part.headers.get('x-file-size'), await part.text()], [206, '11', '234'])
      assert.deepEqual(await said('GET', `${path}&offset=12`), [416, 'range_not_satisfiable', undefined, { size: 11 }])
      const stat = (await (await agent.ask('GET', '/files/stat?path=/home/conformance')).json()) as Record<string, unknown>
      assert.deepEqual(
        { ...stat, modified_at: '' },
        { path: '/home/conformance', name: 'conformance', type: 'file', size: 11, mode: '0644', modified_at: '' },
      )
      const removed = await agent.ask('DELETE', path)
      assert.deepEqual([removed.status, await removed.text()], [204, ''])
      for (const [method, where] of [
        ['GET', path],
        ['DELETE', path],
        ['GET', '/files/stat?path=/home/conformance'],
      ] as const)
        assert.deepEqual(
          await said(method, where),
          [404, 'not_found', 'path_not_found', { path: '/home/conformance' }],
          `${method} ${where}`,
        )
    })
  })
}

function requestOf(session_id: string, { stdout, stderr, exit_code }: Played) {
  const end = exit_code === null ? 'exec sleep 1000' : `exit ${exit_code}`
  const argv = ['/bin/sh', '-c', `printf '${stdout}'; printf '${stderr}' >&2; ${end}`]
  return { session_id, fingerprint: `print ${session_id}`, argv, cwd: '/', user: 'root', env: {} }
}

async function refusalOf(response: Response): Promise<[number, string, string | undefined, object | undefined]> {
  const { code, message, reason, details } = (await response.json()) as { code: string; message: string; reason?: string; details?: object }
  assert.ok(message.length > 0)
  return [response.status, code, reason, details]
}

interface Frame {
  kind: number
  offset: number
  data: Buffer
}

async function readFrames(response: Response): Promise<Frame[]> {
  assert.ok(response.ok, `${response.status}`)
  const bytes = Buffer.from(await response.arrayBuffer())
  const frames: Frame[] = []
  for (let at = 0; at < bytes.length;) {
    const from = at + FRAME.header_bytes
    const to = from + bytes.readUInt32BE(at + 4)
    frames.push({ kind: bytes.readUInt8(at), offset: Number(bytes.readBigUInt64BE(at + 8)), data: bytes.subarray(from, to) })
    at = to
  }
  return frames
}

function joined(frames: Frame[]): Record<string, [number, string]> {
  const streams: Record<string, [number, string]> = {}
  for (const { kind, offset, data } of frames) {
    const name = kind === FRAME.stdout ? 'stdout' : kind === FRAME.stderr ? 'stderr' : undefined
    if (name === undefined) continue
    const [first, text] = (streams[name] ??= [offset, ''])
    assert.equal(offset, first + text.length)
    streams[name] = [first, text + data.toString()]
  }
  return streams
}
