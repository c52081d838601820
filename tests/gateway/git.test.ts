import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { seedSecret } from '../support/secrets.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let token: string
before(async () => {
  bench = await openBench()
  await bench.database.superuser
    .updateTable('api_keys')
    .set({ tool_permissions: ['exec', 'git'] })
    .execute()
  token = await bench.token({ tools: ['git'] })
})
after(() => bench[Symbol.asyncDispose]())

const post = (verb: string, json: unknown, headers: Record<string, string> = {}) =>
  bench.call('POST', `/git/${verb}`, { json, headers, token })
const URL_OK = 'https://host.test/a.git'

const BAD_URLS = [
  'http://host/a', 'file:///etc/passwd', 'ssh://host/a', 'git://host/a', 'ext::sh -c id', '-u/bin/sh', '--upload-pack=x', 'host:a', '/etc',
  'https://user@host/a', 'https://user:secret@host/a', 'https://@host/a', 'https://user@host\n', 'https://host/a\n', 'https://host/\ta',
  'https://host/a b', 'https://host\\@evil/a', 'HTTPS://host/a', 'https:host/a', 'https:///a', 'https://-host/a', 'https://', '',
  'https://host/\u0000', 'https://host:99999/a', 'https://ho st/a', ' https://host/a', 'https://host/\ud800',
] // prettier-ignore
for (const url of BAD_URLS) {
  test(`a clone of ${JSON.stringify(url)} is refused before the machine is asked`, async () => {
    const before = bench.agent.seen.length
    assert.equal(await refusalOf(await post('clone', { url, path: '/home/user/a' })), '422 validation_failed')
    assert.equal(bench.agent.seen.length, before)
  })
}

const REFUSED: [string, object, string][] = [
  ['a relative path', { path: '../../x' }, '422 validation_failed/invalid_path'],
  ['a path with NUL', { path: '/a\0' }, '422 validation_failed/invalid_path'],
  ['an empty path', { path: '' }, '422 validation_failed/invalid_path'],
  ['a path of 4,097 bytes', { path: `/${'a'.repeat(4096)}` }, '422 validation_failed/invalid_path'],
  ['a branch that is an option', { branch: '--upload-pack=id' }, '422 validation_failed'],
  ['a branch with a line break', { branch: 'a\nb' }, '422 validation_failed'],
  ['a branch with ..', { branch: 'a..b' }, '422 validation_failed'],
  ['an empty branch', { branch: '' }, '422 validation_failed'],
  ['a depth of 0', { depth: 0 }, '422 validation_failed'],
  ['a depth of text', { depth: '1' }, '422 validation_failed'],
  ['a timeout above the bound', { timeout_ms: 600_001 }, '422 validation_failed'],
  ['a secret that is not there', { authorization_secret: 'NOWHERE' }, '403 forbidden/secret_not_available'],
  ['an unknown field', { recurse_submodules: true }, '400 bad_request'],
]
for (const [what, change, refusal] of REFUSED) {
  test(`a clone with ${what} is ${refusal}`, async () => {
    const before = bench.agent.seen.length
    assert.equal(await refusalOf(await post('clone', { url: URL_OK, path: '/home/user/a', ...change })), refusal)
    assert.equal(bench.agent.seen.length, before)
  })
}

test('credentials that are not a valid header value are refused', async () => {
  for (const given of ['token', 'Basic', 'Basic a b', `Basic ${'x'.repeat(4096)}`, ': x'])
    assert.equal(
      await refusalOf(await post('clone', { url: URL_OK, path: '/a' }, { 'x-git-authorization': given })),
      '422 validation_failed',
      given,
    )
})

test('a clone sends the machine the request with its defaults, and credentials only if given', async () => {
  const asked: unknown[] = []
  bench.agent.script = async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    asked.push(JSON.parse(Buffer.concat(chunks).toString()))
    response
      .writeHead(201, { 'content-type': 'application/json' })
      .end(JSON.stringify({ path: '/a', branch: 'main', commit: 'c', injected: true }))
  }
  const plain = await post('clone', { url: URL_OK, path: '/a' })
  assert.deepEqual([plain.status, await plain.json()], [201, { path: '/a', branch: 'main', commit: 'c' }])
  await post('clone', { url: URL_OK, path: '/a', branch: 'b', depth: 2, timeout_ms: 5000 }, { 'x-git-authorization': 'Bearer t' })
  bench.agent.script = null
  const env = { FROM: 'input', LOWEST: 'template', MIDDLE: 'input' }
  assert.deepEqual(asked, [
    { url: URL_OK, path: '/a', env, timeout_ms: 120_000 },
    { url: URL_OK, path: '/a', env, timeout_ms: 5000, branch: 'b', depth: 2, authorization: 'Bearer t' },
  ])
  assert.ok(!bench.logged.join('').includes('Bearer t'))
})

test('a clone sends a named secret whose terms allow git, and never reveals its value', async () => {
  const { organization_id, project_id, workspace_id, database } = bench
  bench.table.set(workspace_id, { organization_id, project_id })
  const seed = (name: string, value: string, more: object = {}) =>
    seedSecret(database.superuser, bench.sealing_key, { organization_id, project_id, name, value, allowed_tools: ['git'], ...more })
  await seed('CLONES', 'Basic dTpw')
  await seed('COMMANDS', 'Basic dTpw', { allowed_tools: ['exec', 'pty'] })
  await seed('NO_SCHEME', 'hidden')
  await seed('SENT', 'Basic never', { allowed_tools: ['exec', 'pty'], hosts: [{ host: 'host.test', ports: [443] }] })
  const asked: { authorization?: string }[] = []
  const clone = async (authorization_secret: string, headers: Record<string, string> = {}) => {
    bench.agent.script = async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
      asked.push(JSON.parse(Buffer.concat(chunks).toString()) as { authorization?: string })
      response.writeHead(201, { 'content-type': 'application/json' }).end('{"path":"/a","branch":null,"commit":null}')
    }
    const answer = await post('clone', { url: URL_OK, path: '/a', authorization_secret }, headers)
    bench.agent.script = null
    return { status: answer.status, text: await answer.text() }
  }
  assert.equal((await clone('CLONES')).status, 201)
  assert.equal(asked[0]?.authorization, 'Basic dTpw')
  const refused = await clone('COMMANDS')
  assert.deepEqual([refused.status, refused.text.includes('secret_not_available'), refused.text.includes('COMMANDS')], [403, true, true])
  assert.equal((await clone('SENT')).status, 403) // this secret is not bound to the workspace
  const shapeless = await clone('NO_SCHEME')
  assert.deepEqual([shapeless.status, shapeless.text.includes('hidden')], [422, false])
  assert.equal((await clone('CLONES', { 'x-git-authorization': 'Bearer t' })).status, 422)
  assert.equal(asked.length, 1)
  assert.ok(!bench.logged.join('').includes('dTpw'))
})

test("before a machine's first call, a clone included, its guest is made to trust the proxy of bound secrets", async () => {
  const { workspace_id, project_id, database } = bench
  await database.superuser.insertInto('workspace_secrets').values({ workspace_id, project_id, name: 'SENT' }).execute()
  bench.table.set(workspace_id, { has_secrets: true })
  bench.agent.files.clear()
  const clones: (string | undefined)[] = []
  bench.agent.git = async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const trusted = bench.agent.files.get('/etc/ssl/certs/ca-certificates.crt')?.toString()
    clones.push(
      trusted?.includes('BEGIN CERTIFICATE')
        ? (JSON.parse(Buffer.concat(chunks).toString()) as { authorization?: string }).authorization
        : 'untrusted',
    )
    response.writeHead(201, { 'content-type': 'application/json' }).end('{"path":"/a","branch":null,"commit":null}')
  }
  assert.equal((await post('clone', { url: URL_OK, path: '/a' })).status, 201)
  assert.equal((await post('clone', { url: URL_OK, path: '/a', authorization_secret: 'SENT' })).status, 201)
  assert.equal(clones[0], undefined)
  assert.match(clones[1] ?? '', /^berth-secret-[0-9a-f]{40}$/)
  bench.agent.git = null
})

const COMMITS: [string, object, string][] = [
  ['a blank message', { message: ' \n' }, '422 validation_failed'],
  ['a message with NUL', { message: 'a\0' }, '422 validation_failed'],
  ['no paths at all in paths', { paths: [] }, '422 validation_failed'],
  ['an empty path in paths', { paths: [''] }, '422 validation_failed'],
  ['NUL in paths', { paths: ['a\0b'] }, '422 validation_failed'],
  ['a relative path', { path: 'a' }, '422 validation_failed/invalid_path'],
  ['an author with a line break', { author: { name: 'a\nb', email: 'c' } }, '422 validation_failed'],
  ['an author with <', { author: { name: 'a', email: '<c' } }, '422 validation_failed'],
  ['an author of dots', { author: { name: '...', email: 'c' } }, '422 validation_failed'],
  ['half an author', { author: { name: 'a' } }, '422 validation_failed'],
]
for (const [what, change, refusal] of COMMITS) {
  test(`a commit with ${what} is ${refusal}`, async () => {
    assert.equal(await refusalOf(await post('commit', { path: '/home/user/a', message: 'm', ...change })), refusal)
  })
}

test('an agent with an invalid status is internal_error, and its timeout is 504', async () => {
  const answer = (status: number, value: unknown) => {
    bench.agent.script = (_request, response) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    return bench.call('GET', '/git/status?path=/a', { token })
  }
  const whole = {
    root: '/a',
    branch: null,
    head: null,
    upstream: null,
    ahead: null,
    behind: null,
    clean: true,
    files: [],
    truncated: false,
  }
  assert.equal((await answer(200, whole)).status, 200)
  for (const lie of [{ ...whole, ahead: -1 }, { ...whole, files: [{ path: 1 }] }, { ...whole, root: undefined }, [], null])
    assert.equal(await refusalOf(await answer(200, lie)), '500 internal_error')
  const file = { path: 'a', index: 'added', worktree: 'modified', renamed_from: null, conflicted: false }
  const extra = await answer(200, { ...whole, files: [{ ...file, injected: 'x' }] })
  assert.deepEqual(((await extra.json()) as { files: unknown[] }).files, [file])
  assert.equal(await refusalOf(await answer(504, { code: 'timeout', message: 'late' })), '504 timeout')
  bench.agent.script = null
})

test('a token without git is 403', async () => {
  const other = await bench.token({ tools: ['exec'] })
  assert.equal(await refusalOf(await bench.call('GET', '/git/status?path=/a', { token: other })), '403 forbidden')
})
