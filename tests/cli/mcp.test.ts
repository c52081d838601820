import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { builtCli } from '../support/built-clients.ts'
import { type Served, serveDouble } from './served.ts'

const MAIN = await builtCli()
const NODE = ['--disable-warning=ExperimentalWarning', MAIN]

let served: Served
before(async () => {
  served = await serveDouble()
})
after(() => served[Symbol.asyncDispose]())

const env = () => ({
  PATH: process.env['PATH'] ?? '',
  BERTH_URL: served.url,
  BERTH_API_KEY: served.double.options.apiKey,
  BERTH_CONFIG_DIR: served.folder,
})

/** The official client, on a server of its own. */
async function connected(...flags: string[]): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [...NODE, 'mcp', ...flags], env: env() }))
  return client
}

interface Answer {
  is_error: boolean
  text: string
}
async function call(client: Client, name: string, asked: Record<string, unknown>): Promise<Answer> {
  const { content, isError } = (await client.callTool({ name, arguments: asked })) as { content: { text: string }[]; isError?: boolean }
  return { is_error: isError === true, text: content[0]?.text ?? '' }
}

test('a model opens, writes, runs, reads, patches, searches, keeps, forks and restores', async () => {
  const client = await connected()
  const at = { workspace: 'w', path: '/home/user/notes.txt' }
  await call(client, 'open', { workspace: 'w' })
  await call(client, 'write_file', { ...at, content: 'one two' })
  assert.match((await call(client, 'exec', { workspace: 'w', argv: ['cat', at.path] })).text, /"exit_code": 0.*one two/s)
  await call(client, 'patch_file', { ...at, edits: [{ old_text: 'two', new_text: 'three' }] })
  assert.match((await call(client, 'read_file', at)).text, /one three/)
  assert.match(
    (await call(client, 'search_files', { workspace: 'w', path: '/home/user', pattern: 'three' })).text,
    /notes\.txt:1: one three/,
  )
  const { checkpoint_id } = JSON.parse((await call(client, 'snapshot', { workspace: 'w' })).text) as { checkpoint_id: string }
  await call(client, 'fork', { workspace: 'w', to: 'copy' })
  assert.match((await call(client, 'read_file', { ...at, workspace: 'copy' })).text, /one three/)
  assert.equal((await call(client, 'restore', { workspace: 'w', checkpoint_id })).is_error, false)
  assert.ok(await served.double.berth.find('mcp-w'))
  await client.close()
})

test('what is longer than a model reads at once is cut, and read on from an offset', async () => {
  served.double.programs['long'] = ({ stdout }) => void stdout(`${'é'.repeat(25_000)}end`)
  const client = await connected()
  const first = JSON.parse((await call(client, 'exec', { workspace: 'long', argv: ['long'] })).text) as {
    id: string
    stdout: { text: string; next_offset: number }
  }
  assert.deepEqual([first.stdout.text.length, first.stdout.next_offset], [20_000, 40_000])
  const rest = await call(client, 'exec_output', { workspace: 'long', id: first.id, stream: 'stdout', offset: first.stdout.next_offset })
  assert.equal((JSON.parse(rest.text) as { text: string }).text, `${'é'.repeat(5000)}end`)
  await client.close()
})

test('it leaves neither its prefix, nor its tools, nor its budget', async () => {
  await served.double.berth.open('private', { template: 'base' })
  const client = await connected('--tools', 'exec,files', '--prefix', 'agent-', '--calls-max', '4', '--workspaces-max', '1')
  const { tools } = await client.listTools()
  assert.equal(tools.some(({ name }) => ['open', 'fork', 'terminal', 'browse', 'expose_port'].includes(name)), false) // prettier-ignore
  assert.match((await call(client, 'read_file', { workspace: 'private', path: '/etc/passwd' })).text, /no workspace private/)
  assert.equal((await call(client, 'exec', { workspace: 'a', argv: ['true'] })).is_error, false)
  assert.ok(await served.double.berth.find('agent-a'))
  assert.match((await call(client, 'exec', { workspace: 'b', argv: ['true'] })).text, /budget of 1 workspaces/)
  await call(client, 'exec', { workspace: 'a', argv: ['true'] })
  assert.match((await call(client, 'exec', { workspace: 'a', argv: ['true'] })).text, /budget of 4 calls/)
  await client.close()
})

test('a refusal is a result with its code, for the model to read', async () => {
  const client = await connected()
  await call(client, 'open', { workspace: 'w2' })
  const { is_error, text } = await call(client, 'read_file', { workspace: 'w2', path: '/missing' })
  assert.deepEqual([is_error, (JSON.parse(text) as { code: string }).code], [true, 'not_found'])
  await client.close()
})

test('over HTTP it serves whoever has the token, and no page of a browser', async () => {
  const token = 'a-token-of-this-test'
  const child = spawn(process.execPath, [...NODE, 'mcp', '--listen', '0'], {
    env: { ...env(), BERTH_MCP_TOKEN: token },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = new URL(line.toString().trim())
  const headers = { authorization: `Bearer ${token}` }
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
  assert.match((await call(client, 'exec', { workspace: 'http', argv: ['echo', 'hello'] })).text, /hello/)
  await client.close()
  const refused = async (init: RequestInit) => (await fetch(url, { method: 'POST', body: '{}', ...init })).status
  assert.deepEqual([await refused({}), await refused({ headers: { ...headers, origin: 'http://evil.test' } })], [401, 401])
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'close'), [0, null])
})
