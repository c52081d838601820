import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { answer, sha256 } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
afterEach(() => {
  bench.agent.script = null
  bench.table.set(bench.workspace_id, { disk_layout: 'layered' })
})
after(() => bench[Symbol.asyncDispose]())

const patch = (json: unknown, headers: Record<string, string> = {}) => bench.call('POST', '/files/patch', { json, headers })
const search = (json: unknown) => bench.call('POST', '/files/search', { json })
const says = (status: number, value: unknown) => {
  const asked: { body: unknown; url: string; key: string | undefined }[] = []
  bench.agent.script = async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    asked.push({
      body: text === '' ? null : (JSON.parse(text) as unknown),
      url: request.url ?? '',
      key: request.headers['idempotency-key'] as string | undefined,
    })
    answer(response, status, value)
  }
  return asked
}
const FILE = { path: '/f', name: 'f', type: 'file', size: 1, mode: '0644', modified_at: '2026-01-01T00:00:00.000Z' }
const PATCHED = {
  path: '/f',
  revision: sha256('x'),
  previous_revision: 'absent',
  bytes_written: 1,
  durable: true,
  replacements: 0,
  file: FILE,
}

test('a patch reaches the agent with its key, and its answer is passed on', async () => {
  const asked = says(200, PATCHED)
  const response = await patch({ path: '/f', content: 'x', expected_revision: 'absent' }, { 'idempotency-key': 'k:1' })
  assert.deepEqual([response.status, await response.json()], [200, { ...PATCHED, previous_revision: null }])
  assert.deepEqual(asked, [{ body: { path: '/f', content: 'x', expected_revision: 'absent' }, url: '/files/patch', key: 'k:1' }])
})

const edit = { old_text: 'a', new_text: 'b' }
const BAD_PATCHES: [string, unknown, string][] = [
  ['neither edits nor content', { path: '/f' }, '422 validation_failed/patch_invalid'],
  ['both', { path: '/f', content: '', edits: [edit] }, '422 validation_failed/patch_invalid'],
  ['no edit', { path: '/f', edits: [] }, '422 validation_failed/patch_invalid'],
  ['1,001 edits', { path: '/f', edits: Array(1001).fill(edit) }, '422 validation_failed/patch_invalid'],
  ['a lone surrogate', { path: '/f', content: '\ud800' }, '422 validation_failed/patch_invalid'],
  ['an edit without new_text', { path: '/f', edits: [{ old_text: 'a' }] }, '422 validation_failed'],
  ['an edit with an unknown field', { path: '/f', edits: [{ ...edit, regex: true }] }, '400 bad_request'],
  ['an unknown field', { path: '/f', content: '', force: true }, '400 bad_request'],
  ['a revision that is none', { path: '/f', content: '', expected_revision: 'ABSENT' }, '422 validation_failed'],
  ['a relative path', { path: 'f', content: '' }, '422 validation_failed/invalid_path'],
  ['no path', { content: '' }, '422 validation_failed'],
]
for (const [what, body, refusal] of BAD_PATCHES) {
  test(`a patch with ${what} is ${refusal} and reaches no machine`, async () => {
    const asked = says(200, PATCHED)
    assert.equal(await refusalOf(await patch(body)), refusal)
    assert.deepEqual(asked, [])
  })
}

test('a patch body of more than 7 MiB is 413 with max_bytes; a bad key is 422', async () => {
  const response = await patch({ path: '/f', content: 'x'.repeat(7 << 20) })
  const { error } = (await response.json()) as { error: { code: string; details: object } }
  assert.deepEqual([response.status, error.code, error.details], [413, 'payload_too_large', { max_bytes: 7 << 20 }])
  for (const key of ['a b', 'a'.repeat(101)])
    assert.equal(await refusalOf(await patch({ path: '/f', content: '' }, { 'idempotency-key': key })), '422 validation_failed')
})

test("the revision before a patch is the file's, or null where the agent has none", async () => {
  for (const previous_revision of [sha256('y'), undefined]) {
    says(200, { ...PATCHED, previous_revision })
    const result = (await (await patch({ path: '/f', content: 'x' })).json()) as { previous_revision?: string }
    assert.equal(result.previous_revision, previous_revision)
  }
})

for (const [reason, said, details] of [
  ['revision_mismatch', { current_revision: sha256('y') }, { current_revision: sha256('y') }],
  ['revision_mismatch', { current_revision: 'absent' }, {}],
  ['operation_id_reused', {}, {}],
] as const) {
  test(`the agent's ${reason} with ${JSON.stringify(said)} is 409 with ${JSON.stringify(details)}`, async () => {
    says(409, { code: 'conflict', reason, message: 'x', details: said })
    const response = await patch({ path: '/f', content: 'x' })
    const { error } = (await response.json()) as { error: { code: string; details: object } }
    assert.deepEqual([response.status, error.code, error.details], [409, 'conflict', { ...details, reason }])
  })
}

test('an agent that acknowledges other content is 500', async () => {
  says(200, { ...PATCHED, revision: sha256('y') })
  assert.equal(await refusalOf(await patch({ path: '/f', content: 'x' })), '500 internal_error')
})

const FOUND = {
  matches: [{ path: '/f', line: 1, column: 1, text: 'a', before: [], after: [] }],
  truncated: true,
  stop_reason: 'max_matches',
  files_scanned: 1,
}

test('a search is sent with its defaults, and answered', async () => {
  const asked = says(200, FOUND)
  const response = await search({ path: '/', pattern: 'a' })
  assert.deepEqual([response.status, await response.json()], [200, { ...FOUND, next_cursor: null }])
  assert.deepEqual(asked[0]?.body, {
    path: '/',
    pattern: 'a',
    regex: false,
    case_insensitive: false,
    include: [],
    exclude: [],
    max_matches: 200,
    max_file_bytes: 1 << 20,
    context_lines: 0,
    on_disk_after_ms: 150,
  })
})

test('a search with max_file_bytes above 16 MiB is sent with 16 MiB', async () => {
  const asked = says(200, FOUND)
  for (const max_file_bytes of [16 << 20, (16 << 20) + 1, Number.MAX_SAFE_INTEGER])
    assert.equal((await search({ path: '/', pattern: 'a', max_file_bytes })).status, 200)
  assert.deepEqual(
    asked.map(({ body }) => (body as { max_file_bytes: number }).max_file_bytes),
    [16 << 20, 16 << 20, 16 << 20],
  )
})

const BAD_SEARCHES: [string, object, string][] = [
  ['an empty pattern', { pattern: '' }, '422 validation_failed'],
  ['a pattern of 1 MB', { pattern: 'a'.repeat(1 << 20) }, '422 validation_failed'],
  ['max_matches of 5001', { max_matches: 5001 }, '422 validation_failed'],
  ['max_matches of 0', { max_matches: 0 }, '422 validation_failed'],
  ['context_lines of 6', { context_lines: 6 }, '422 validation_failed'],
  ['65 globs', { include: Array(65).fill('*') }, '422 validation_failed'],
  ['a relative path', { path: 'x' }, '422 validation_failed/invalid_path'],
  ['an unknown field', { glob: '*' }, '400 bad_request'],
]
for (const [what, change, refusal] of BAD_SEARCHES) {
  test(`a search with ${what} is ${refusal} and reaches no machine`, async () => {
    const asked = says(200, FOUND)
    assert.equal(await refusalOf(await search({ path: '/', pattern: 'a', ...change })), refusal)
    assert.deepEqual(asked, [])
  })
}

const LIES: [string, object][] = [
  ['more matches than asked for', { matches: Array(201).fill(FOUND.matches[0]) }],
  ['a stop reason of its own', { stop_reason: 'tired' }],
  ['truncated without a reason', { stop_reason: null }],
  ['a cursor that is none', { next_cursor: '../x' }],
  ['a negative line', { matches: [{ ...FOUND.matches[0], line: -1 }] }],
]
for (const [what, change] of LIES) {
  test(`an agent that finds ${what} is 500`, async () => {
    says(200, { ...FOUND, ...change })
    assert.equal(await refusalOf(await search({ path: '/', pattern: 'a' })), '500 internal_error')
  })
}

const CHANGES = {
  changes: [{ path: '/a', change: 'added', type: 'file', size: 1, mode: '0644', sha256: sha256('x') }],
  next_cursor: 'AbC_-',
  summary: null,
}

test('changes are requested with the filter, and answered', async () => {
  const asked = says(200, CHANGES)
  const response = await bench.call('GET', '/changes?path_prefix=/a%20b&limit=1&hash=true&cursor=xyz')
  const { changes: data, ...rest } = CHANGES
  assert.deepEqual([response.status, await response.json()], [200, { data, ...rest }])
  assert.equal(asked[0]?.url, '/changes?limit=1&hash=true&summary=false&path_prefix=%2Fa%20b&cursor=xyz')
})

test('a page of changes has 50 entries unless another limit is given, up to 1000', async () => {
  const asked = says(200, CHANGES)
  for (const query of ['', '?limit=1000']) assert.equal((await bench.call('GET', `/changes${query}`)).status, 200)
  assert.deepEqual(
    asked.map(({ url }) => url),
    ['/changes?limit=50&hash=false&summary=false', '/changes?limit=1000&hash=false&summary=false&on_disk_from=200'],
  )
})

test('the changes of a workspace on a full copy of its template are 409 legacy_disk_layout', async () => {
  const asked = says(200, CHANGES)
  bench.table.set(bench.workspace_id, { disk_layout: 'legacy' })
  assert.equal(await refusalOf(await bench.call('GET', '/changes')), '409 conflict/legacy_disk_layout')
  assert.deepEqual(asked, [])
})

test('limit, cursor and flags of changes are checked', async () => {
  for (const query of ['limit=0', 'limit=1001', `cursor=${'a'.repeat(201)}`, 'cursor=', 'hash=perhaps', 'summary=2'])
    assert.equal(await refusalOf(await bench.call('GET', `/changes?${query}`)), '400 bad_request', query)
})

for (const [what, change] of [
  ['more than asked for', { changes: Array(51).fill(CHANGES.changes[0]) }],
  ['a cursor with a line break', { next_cursor: 'a\r\nX-Evil: 1' }],
  ['a kind of its own', { changes: [{ ...CHANGES.changes[0], change: 'eaten' }] }],
  ['a summary that was not asked for', { summary: { added: 0, modified: 0, metadata: 0, deleted: 0, replaced: 0, truncated: false } }],
] as [string, object][]) {
  test(`an agent that lists ${what} is 500`, async () => {
    says(200, { ...CHANGES, ...change })
    assert.equal(await refusalOf(await bench.call('GET', '/changes')), '500 internal_error')
  })
}
