import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { PatchResult } from '../../contract/schemas/cell/file.ts'
import { type Client, createClient, detailsOf, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('patch')
})
after(async () => {
  await service.stop()
})

const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
const at = (path: string) => `/files?path=${encodeURIComponent(path)}`
const put = <T = Record<string, unknown>>(path: string, text: string | Buffer, query = '', headers = {}) =>
  client.tool<T>(workspace, `${at(path)}${query}`, { method: 'PUT', bytes: Buffer.from(text), headers })
const text = async (path: string) => (await client.tool(workspace, at(path))).bytes.toString()
const patch = <T = PatchResult>(json: object, headers = {}) => client.tool<T>(workspace, '/files/patch', { json, headers })

test('edits are applied, the mode stays, and the answer describes the new file', async () => {
  await put('/home/user/f', 'one two', '&mode=0750')
  const { status, body } = await patch({
    path: '/home/user/f',
    edits: [
      { old_text: 'one', new_text: '1' },
      { old_text: 'two', new_text: '2' },
    ],
    expected_revision: sha256('one two'),
  })
  assert.equal(status, 200)
  const { modified_at } = body.file
  assert.deepEqual(body, {
    path: '/home/user/f',
    revision: sha256('1 2'),
    previous_revision: sha256('one two'),
    bytes_written: 3,
    durable: true,
    replacements: 2,
    file: { path: '/home/user/f', name: 'f', type: 'file', size: 3, mode: '0750', modified_at, revision: sha256('1 2') },
  })
  assert.equal(await text('/home/user/f'), '1 2')
})

test('each refusal has its reason and changes nothing', async () => {
  await put('/home/user/g', 'a a')
  await put('/home/user/binary', Buffer.from([97, 0, 255]))
  const edits = [{ old_text: 'a', new_text: 'b' }]
  const path = '/home/user/g'
  const CASES: [object, unknown[], object][] = [
    [{ path, edits }, [422, 'validation_failed', 'edit_ambiguous'], { index: 0 }],
    [{ path, edits: [{ old_text: 'a a', new_text: '' }, ...edits] }, [422, 'validation_failed', 'edit_not_found'], { index: 1 }],
    [{ path: '/home/user/binary', edits }, [422, 'validation_failed', 'edit_not_text'], {}],
    [{ path }, [422, 'validation_failed', 'patch_invalid'], {}],
    [{ path, content: 'x', expected_revision: 'absent' }, [409, 'conflict', 'revision_mismatch'], { current_revision: sha256('a a') }],
    [
      { path: '/home/user/none', content: 'x', expected_revision: sha256('') },
      [409, 'conflict', 'revision_mismatch'],
      { current_revision: undefined },
    ],
    [{ path: '/home/user/none', edits }, [404, 'not_found', 'path_not_found'], {}],
    [{ path: '/home/user', content: 'x' }, [409, 'conflict', 'not_a_file'], {}],
    [{ path: '/home/user/g/x', content: 'x' }, [409, 'conflict', 'not_a_directory'], {}],
    [{ path: '/dev/zero', content: 'x' }, [409, 'conflict', 'not_a_file'], {}],
  ]
  for (const [body, wanted, details] of CASES) {
    const answer = await patch(body)
    assert.deepEqual(refusalOf(answer), wanted, JSON.stringify(body))
    for (const [name, value] of Object.entries(details)) assert.equal(detailsOf(answer)[name], value)
  }
  assert.equal(await text(path), 'a a')
})

test('of fifty concurrent patches on one revision, one wins each round', async () => {
  await put('/home/user/race', 'start')
  let expected_revision = sha256('start')
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => patch<PatchResult>({ path: '/home/user/race', content: `${round} ${n}`, expected_revision })),
    )
    const winners = answers.filter(({ status }) => status === 200)
    assert.equal(winners.length, 1)
    for (const loser of answers.filter(({ status }) => status !== 200))
      assert.deepEqual(refusalOf(loser), [409, 'conflict', 'revision_mismatch'])
    expected_revision = winners[0]?.body.revision ?? ''
    assert.equal(sha256(await text('/home/user/race')), expected_revision)
  }
})

test('a body of 7 MiB is patched, and a larger one is 413 with max_bytes', async () => {
  const content = 'x'.repeat((7 << 20) - 100)
  const made = await patch({ path: '/home/user/big', content })
  assert.deepEqual([made.status, made.body.previous_revision], [200, null])
  const refused = await patch({ path: '/home/user/big', content: `${content}${'y'.repeat(200)}` })
  assert.deepEqual([...refusalOf(refused).slice(0, 2), detailsOf(refused)['max_bytes']], [413, 'payload_too_large', 7 << 20])
  assert.equal(await text('/home/user/big'), content)
})

test('an edit of a sparse file of 1 TiB is refused, and the machine keeps serving', async () => {
  await client.run(workspace, ['truncate', '-s', '1T', '/home/user/sparse'])
  const refused = await patch({ path: '/home/user/sparse', edits: [{ old_text: 'a', new_text: 'b' }] })
  assert.deepEqual([...refusalOf(refused).slice(0, 2), detailsOf(refused)['max_bytes']], [413, 'payload_too_large', 16 << 20])
})

test('a key replays a patch, an append and a write; another request under it is 409', async () => {
  const edits = [{ old_text: 'x', new_text: 'xx' }]
  await put('/home/user/k', 'x')
  const first = await patch({ path: '/home/user/k', edits }, { 'idempotency-key': 'patch-1' })
  const repeat = await patch({ path: '/home/user/k', edits }, { 'idempotency-key': 'patch-1' })
  assert.deepEqual([repeat.status, repeat.body], [200, first.body])
  assert.equal(await text('/home/user/k'), 'xx')
  const appended = await put('/home/user/k', '+', '&append=true', { 'idempotency-key': 'put-1' })
  assert.deepEqual((await put('/home/user/k', '+', '&append=true', { 'idempotency-key': 'put-1' })).body, appended.body)
  assert.equal(await text('/home/user/k'), 'xx+')
  const reused = [409, 'conflict', 'operation_id_reused']
  assert.deepEqual(refusalOf(await put('/home/user/k', '-', '&append=true', { 'idempotency-key': 'put-1' })), reused)
  assert.deepEqual(refusalOf(await put('/home/user/k', '+', '', { 'idempotency-key': 'put-1' })), reused)
  assert.deepEqual(refusalOf(await put('/home/user/other', '+', '&append=true', { 'idempotency-key': 'put-1' })), reused)
  assert.deepEqual(refusalOf(await patch({ path: '/home/user/k', content: '' }, { 'idempotency-key': 'put-1' })), reused)
  assert.equal(await text('/home/user/k'), 'xx+')
})

test('twenty concurrent appends with one key append once', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => put('/home/user/once', 'x', '&append=true', { 'idempotency-key': 'once' })),
  )
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  assert.equal(await text('/home/user/once'), 'x')
})

test('a key replays in a machine that was started again from the disk', async () => {
  const headers = { 'idempotency-key': 'outlives' }
  const first = await patch({ path: '/home/user/outlives', content: 'x' }, headers)
  await service.kill_machine(workspace.id)
  const failed = async () => (await client.api(`/v1/workspaces/${workspace.id}`)).body['observed_state'] === 'failed'
  await until('it has failed', 60_000, failed)
  workspace = await client.open('patch')
  const repeat = await patch({ path: '/home/user/outlives', content: 'x' }, headers)
  assert.deepEqual([repeat.status, repeat.body], [200, first.body])
})
