import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import type { Execution } from '../../contract/schemas/cell/execution.ts'
import type { ExecutionList, ListedExecution } from '../../contract/schemas/cell/lists.ts'
import { shownArgv } from '../../service/cell/filetree/execution-calls/rules.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { executionCalls, outOf } from './support/executions.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'
import { HOME, openTreeBench, q, treeCalls } from './support/tree-calls.ts'

let bench: Bench
const { direct, fresh, start, find, run, playing } = executionCalls(() => bench)
const { write, text, stat } = treeCalls(() => bench)
before(async () => {
  bench = await openTreeBench()
  direct()
})
after(() => bench[Symbol.asyncDispose]())

const json = async (response: Response) => (await response.json()) as Execution
const revision = async () => Number((await stat(HOME)).headers.get('x-tree-revision'))

test('a command is answered with its result when it ends: 201, and 200 for every later call with its id', async () => {
  using _play = playing((session) => {
    session.write('stdout', 'out')
    session.write('stderr', 'err')
    session.exit(7)
  })
  const execution_id = fresh()
  const first = await start({ execution_id })
  assert.equal(first.status, 201)
  const body = await json(first)
  const { timings, created_at, finished_at, ...rest } = body
  assert.deepEqual(rest, {
    execution_id,
    state: 'succeeded',
    base_revision: 0,
    tree_revision: 0,
    exit_code: 7,
    term_signal: null,
    timed_out: false,
    stdout: Buffer.from('out').toString('base64'),
    stderr: Buffer.from('err').toString('base64'),
    stdout_truncated: false,
    stderr_truncated: false,
    changed: [],
    changed_truncated: false,
    error: null,
  })
  assert.deepEqual(Object.keys(timings), ['queued', 'tree', 'start', 'run', 'stop', 'publish'])
  assert.ok(Date.parse(created_at) <= Date.parse(finished_at ?? ''))
  const second = await start({ execution_id })
  assert.deepEqual([second.status, await json(second)], [200, body])
  const found = await find(execution_id)
  assert.deepEqual([found.status, await json(found)], [200, body])
})

test("a command's changes are one revision, and the next command runs on it", async () => {
  await write(`${HOME}/kept.txt`, 'kept')
  const before = await revision()
  {
    using _play = playing((session, files) => {
      files.set('made.txt', 'made')
      session.exit(0)
    })
    const { base_revision, tree_revision, changed } = await run()
    assert.deepEqual([base_revision, tree_revision], [before, before + 1])
    assert.deepEqual(changed, [{ path: `${HOME}/made.txt`, change: 'added', type: 'file' }])
  }
  assert.deepEqual([await text(`${HOME}/made.txt`), await text(`${HOME}/kept.txt`), await revision()], ['made', 'kept', before + 1])
  const again = await run()
  assert.deepEqual([again.base_revision, again.tree_revision, again.changed], [before + 1, before + 1, []])
})

test('the same id with any other request is 409 execution_id_reused', async () => {
  const execution_id = fresh()
  const asked = { execution_id, argv: ['a'], env: { A: '1' }, timeout_ms: 1000 }
  assert.equal((await start(asked)).status, 201)
  const others = [
    { argv: ['b'] },
    { env: { A: '2' } },
    { timeout_ms: 2000 },
    { output_limit_bytes: 5 },
    { stdin: 'x' },
    { cwd: `${HOME}/d` },
  ]
  for (const other of others) {
    assert.equal(await refusalOf(await start({ ...asked, ...other })), '409 conflict/execution_id_reused', JSON.stringify(other))
  }
  assert.equal((await start({ ...asked, session_id: 'ignored' })).status, 200, 'session_id is no part of it')
})

test('during a command other commands and changes are 409 workspace_busy, reads work, and 50 callers of its id wait for it', async () => {
  const going = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  using _play = playing(async (session) => {
    started.resolve()
    await going.promise
    session.exit(0)
  })
  await write(`${HOME}/read.txt`, 'read')
  const execution_id = fresh()
  const first = start({ execution_id })
  await started.promise
  const others = Array.from({ length: 50 }, () => start({ execution_id }))
  const busy = async (call: Promise<Response>) => {
    const response = await call
    const { error } = (await response.clone().json()) as { error: { details: { execution_id: string }; retryable: boolean } }
    assert.deepEqual([await refusalOf(response), error.details.execution_id, error.retryable], ['409 workspace_busy/execution_in_progress', execution_id, true]) // prettier-ignore
  }
  await busy(start({ execution_id: fresh() }))
  await busy(write(`${HOME}/other.txt`, 'x'))
  await busy(write(`${HOME}/other.txt`, 'x', {}, { 'if-match': String(await revision()) }))
  await busy(bench.call('DELETE', `/files?${q(`${HOME}/read.txt`)}`))
  await busy(bench.call('POST', '/files/mkdir', { json: { path: `${HOME}/d` } }))
  await busy(bench.call('POST', '/files/move', { json: { from: `${HOME}/read.txt`, to: `${HOME}/moved` } }))
  await busy(bench.call('PUT', `/files/tar?${q(`${HOME}/tar`)}`, { body: Buffer.alloc(1024) }))
  await busy(bench.call('POST', '/tree/restore', { json: { tree_revision: 0 } }))
  await busy(bench.call('POST', '/files/patch', { json: { path: `${HOME}/read.txt`, content: 'x' } }))
  assert.equal(await refusalOf(await start({ execution_id, argv: ['other'] })), '409 conflict/execution_id_reused')
  assert.equal(await text(`${HOME}/read.txt`), 'read')
  const found = await find(execution_id)
  assert.deepEqual([found.status, (await json(found)).state], [202, 'running'])
  going.resolve()
  assert.equal((await first).status, 201)
  const all = await Promise.all(others)
  assert.deepEqual(new Set(all.map(({ status }) => status)), new Set([200]))
  assert.equal((await write(`${HOME}/other.txt`, 'x')).status, 200)
})

test('a caller that disconnects cancels nothing', async () => {
  const going = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  using _play = playing(async (session, files) => {
    started.resolve()
    await going.promise
    files.set('left.txt', 'left')
    session.exit(0)
  })
  const execution_id = fresh()
  const leaving = new AbortController()
  const call = start({ execution_id }, { signal: leaving.signal })
  await started.promise
  leaving.abort()
  await assert.rejects(call)
  going.resolve()
  const answer = await start({ execution_id })
  const { state, changed } = await json(answer)
  assert.deepEqual([answer.status, state, changed.length], [200, 'succeeded', 1])
})

test('output beyond the limit is cut at its end, for each stream by itself', async () => {
  using _play = playing((session) => {
    session.write('stdout', 'x'.repeat(70_000))
    session.write('stdout', 'y'.repeat(70_000))
    session.write('stderr', 'ok')
    session.exit(0)
  })
  const limited = await run({ output_limit_bytes: 70_001 })
  assert.equal(outOf(limited), `${'x'.repeat(70_000)}y`)
  assert.deepEqual([limited.stdout_truncated, limited.stderr_truncated], [true, false])
  const whole = await run()
  assert.deepEqual([outOf(whole).length, whole.stdout_truncated], [140_000, false])
})

test('a command that cannot start fails with exec_failed_to_start and the cause', async () => {
  using _play = playing((session) => {
    Object.assign(session.record, { state: 'failed_to_start', error: 'no such program' })
    session.emit('change')
  })
  const { state, tree_revision, exit_code, error } = await run({ argv: ['nothing'] })
  assert.deepEqual([state, tree_revision, exit_code], ['failed', null, null])
  assert.deepEqual(error, {
    code: 'validation_failed',
    message: 'no such program',
    retryable: false,
    details: { reason: 'exec_failed_to_start' },
  })
})

test('missing capacity is 503 no_execution_host with Retry-After and leaves no record, and the id can be tried again', async () => {
  const execution_id = fresh()
  {
    using _full = bench.machine_host.intercept('start', 'before', () => {
      throw new HostFailure('no_capacity', 'full', { retryable: true })
    })
    const refused = await start({ execution_id })
    assert.ok(Number(refused.headers.get('retry-after')) > 0)
    assert.equal(await refusalOf(refused), '503 service_unavailable/no_execution_host')
  }
  assert.equal(await refusalOf(await find(execution_id)), '404 not_found')
  assert.equal((await start({ execution_id })).status, 201)
})

test('a dead machine or a silent host loses the execution: nothing is published, and the id never runs again', async () => {
  const before = await revision()
  using _play = playing((session, files) => {
    files.set('lost.txt', 'lost')
    session.record['state'] = 'lost'
    session.emit('change')
  })
  const execution_id = fresh()
  const lost = await json(await start({ execution_id }))
  assert.deepEqual([lost.state, lost.error?.details.reason, lost.error?.retryable], ['lost', 'host_unreachable', true])
  assert.equal(await revision(), before)
  const again = await start({ execution_id })
  assert.deepEqual([again.status, (await json(again)).state], [200, 'lost'])
  assert.equal((await write(`${HOME}/free.txt`, 'x')).status, 200, 'the tree is free again')
})

test('an invalid request of an execution is refused, and nothing is recorded', async () => {
  const refused = async (body: object, expected: string) => assert.equal(await refusalOf(await start(body)), expected, JSON.stringify(body))
  await refused({}, '422 validation_failed')
  for (const execution_id of ['short', 'x'.repeat(129), '.begins-with', 'has space in', 'ümlaut-8'])
    await refused({ execution_id }, '422 validation_failed')
  const execution_id = fresh()
  await refused({ execution_id, stdin_open: true }, '422 validation_failed/not_supported_for_mode')
  for (const output_limit_bytes of [0, -1, 16_777_217]) await refused({ execution_id, output_limit_bytes }, '422 validation_failed')
  for (const cwd of ['relative', '/', '/home', '/home/user2', '/home/user/../other', '/etc'])
    await refused({ execution_id, cwd }, '422 validation_failed/invalid_cwd')
  await refused({ execution_id, argv: [] }, '422 validation_failed')
  await refused({ execution_id, secret_refs: ['NONE'] }, '403 forbidden/secret_not_available')
  assert.equal(await refusalOf(await find(execution_id)), '404 not_found')
  assert.equal(await refusalOf(await find('short')), '400 bad_request')
  assert.equal((await start({ execution_id, output_limit_bytes: 16_777_216, cwd: '/home/user/./d/..' })).status, 201)
})

test('an execution in a workspace with a machine is refused', async () => {
  await using other = await openBench()
  const calls = executionCalls(() => other)
  const of = async (body: object) => assert.equal(await refusalOf(await calls.start(body)), '422 validation_failed/not_supported_for_mode')
  await of({ execution_id: 'execution-1' })
  await of({ output_limit_bytes: 5 })
  assert.equal(await refusalOf(await calls.find('execution-1')), '409 conflict/not_supported_for_mode')
})

test('unfinished executions of an earlier process are lost, and can no longer publish', async () => {
  const before = await revision()
  const going = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  using _play = playing(async (session, files) => {
    started.resolve()
    await going.promise
    files.set('zombie.txt', 'zombie')
    session.exit(0)
  })
  const execution_id = fresh()
  const call = start({ execution_id })
  await started.promise
  await bench.executions.recover() // as the cell process that takes over does
  const found = await find(execution_id)
  const { state, error } = await json(found)
  assert.deepEqual([found.status, state, error?.details.reason], [200, 'lost', 'lease_expired'])
  going.resolve()
  assert.equal((await json(await call)).state, 'lost')
  assert.equal(await revision(), before)
  const rows = await bench.database.superuser.selectFrom('machines').selectAll().where('kind', '=', 'execution').execute()
  assert.deepEqual(rows, [])
})

test('commands are listed newest first, in pages and by state, with their request and without their output', async () => {
  const ids = [fresh(), fresh(), fresh()]
  const asked = { argv: ['sh', '-c', 'true'], cwd: HOME, env: { KEY: 'a value that is secret' } }
  for (const execution_id of ids) await run({ execution_id, ...asked })
  const list = async (query: string) => (await (await bench.call('GET', `/executions?${query}`)).json()) as ExecutionList
  const first = await list('limit=2')
  assert.deepEqual(first.data.map(({ execution_id }) => execution_id), [ids[2], ids[1]]) // prettier-ignore
  const next = await list(`limit=1&cursor=${first.next_cursor}`)
  assert.equal(next.data[0]?.execution_id, ids[0])
  const { argv, argv_truncated, cwd, state, exit_code, ...rest } = first.data[0] as ListedExecution
  assert.deepEqual([argv, argv_truncated, cwd, state, exit_code], [asked.argv, false, HOME, 'succeeded', 0])
  assert.ok(!('stdout' in rest) && !JSON.stringify(first).includes('secret'))
  assert.deepEqual((await list('state=running')).data, [])
  assert.equal((await list('state=ended&limit=1')).data[0]?.execution_id, ids[2])
  for (const cursor of ['x', Buffer.from('5 no').toString('base64url')])
    assert.equal(await refusalOf(await bench.call('GET', `/executions?cursor=${cursor}`)), '400 bad_request')
})

test('a list shows the beginning of a long command, cut between two characters', () => {
  assert.deepEqual(shownArgv(['echo', '', 'ü']), { argv: ['echo', '', 'ü'], argv_truncated: false })
  const long = shownArgv(['echo', 'ü'.repeat(400)])
  assert.deepEqual([long.argv_truncated, long.argv[1]], [true, 'ü'.repeat(253)])
  assert.equal(shownArgv(Array.from({ length: 2000 }, () => '')).argv.length, LIMITS.exec.argv_listed_bytes - 1)
})
