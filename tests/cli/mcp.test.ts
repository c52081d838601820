import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { builtCli, CLIENT_NODE } from '../support/built-clients.ts'
import { terminalText } from '../../cli/src/terminal-text.ts'
import { type Served, serveDouble } from './served.ts'

const MAIN = await builtCli()

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

async function connected(...flags: string[]): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StdioClientTransport({ command: CLIENT_NODE, args: [MAIN, 'mcp', ...flags], env: env() }))
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

test('a model opens, writes, runs, reads, patches, searches, saves, forks and restores', async () => {
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
  await call(client, 'write_file', { ...at, workspace: 'copy', content: 'of the copy' })
  const adopted = await call(client, 'adopt', { workspace: 'w', from: 'copy', delete_copy: true })
  assert.match(adopted.text, /"checkpoint_id": "[0-9a-f-]{36}"/)
  assert.match((await call(client, 'read_file', at)).text, /of the copy/)
  assert.equal((await served.double.berth.find('mcp-copy'))?.view.observed_state ?? 'deleted', 'deleted')
  assert.ok(await served.double.berth.find('mcp-w'))
  await client.close()
})

test('text that is longer than a model reads at once is cut, and can be read on from an offset', async () => {
  served.double.programs['long'] = ({ stdout }) => void stdout(`${'é'.repeat(25_000)}end`)
  const client = await connected()
  const first = JSON.parse((await call(client, 'exec', { workspace: 'long', argv: ['long'] })).text) as {
    id: string
    stdout: { text: string; next_offset: number }
  }
  assert.deepEqual([first.stdout.text.length, first.stdout.next_offset], [20_000, 40_000])
  const rest = await call(client, 'exec_output', { workspace: 'long', id: first.id, stream: 'stdout', offset: first.stdout.next_offset })
  assert.equal((JSON.parse(rest.text) as { output: { text: string } }).output.text, `${'é'.repeat(5000)}end`)
  await client.close()
})

test('a command that outlives its call is read on and ended by its id', async () => {
  served.double.programs['bash'] = ({ argv, stdout, signal }) => {
    stdout(`${argv[2] ?? ''} begun\n`)
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined)))
  }
  const client = await connected()
  const answer = await call(client, 'exec', { workspace: 'slow', command: 'npm test', wait_seconds: 1 })
  const { id, state, stdout } = JSON.parse(answer.text) as { id: string; state: string; stdout: { text: string } }
  assert.deepEqual([state, stdout.text], ['running', 'npm test begun\n'])
  await call(client, 'exec_signal', { workspace: 'slow', id, signal: 'SIGTERM' })
  const { structuredContent } = (await client.callTool({ name: 'exec_output', arguments: { workspace: 'slow', id } })) as {
    structuredContent: { state: string; output: { text: string } }
  }
  assert.deepEqual([structuredContent.state, structuredContent.output.text], ['exited', 'npm test begun\n'])
  const begun = JSON.parse((await call(client, 'exec', { workspace: 'slow', command: 'x', background: true })).text) as { state: string }
  assert.equal(begun.state, 'running')
  assert.match((await call(client, 'exec', { workspace: 'slow' })).text, /either `command` or `argv`/)
  await client.close()
})

test('a model types into a terminal, and sees its screen', async () => {
  const client = await connected()
  const asked = { workspace: 'typed', input: 'hello\n', wait_seconds: 2 }
  assert.match((await call(client, 'terminal', asked)).text, /hello/)
  await client.close()
})

test('binary output is named and not shown', async () => {
  served.double.programs['binary'] = ({ stdout }) => void stdout('\u0000'.repeat(100))
  const client = await connected()
  const { text } = await call(client, 'exec', { workspace: 'bin', argv: ['binary'] })
  assert.match(text, /100 bytes that are no text/)
  await client.close()
})

test('deleting a workspace releases its share of the budget', async () => {
  const client = await connected('--prefix', 'few-', '--workspaces-max', '1')
  await call(client, 'open', { workspace: 'one' })
  assert.match((await call(client, 'open', { workspace: 'two' })).text, /delete one with delete_workspace/)
  assert.equal((await call(client, 'delete_workspace', { workspace: 'one' })).is_error, false)
  assert.equal((await call(client, 'open', { workspace: 'two' })).is_error, false)
  const { workspaces } = JSON.parse((await call(client, 'list_workspaces', {})).text) as { workspaces: { workspace: string }[] }
  assert.deepEqual(
    workspaces.map(({ workspace }) => workspace).filter((name) => name === 'two'),
    ['two'],
  )
  await client.close()
})

test('each tool describes its input, output and effect, and the server how to use them', async () => {
  const client = await connected()
  assert.match(client.getInstructions() ?? '', /\/home\/user/)
  const { tools } = await client.listTools()
  for (const { name, annotations, outputSchema, inputSchema } of tools) {
    assert.equal(typeof annotations?.readOnlyHint, 'boolean', name)
    assert.ok(name === 'screenshot' || outputSchema !== undefined, name)
    assert.doesNotMatch(JSON.stringify(inputSchema), /"format":"starts_with"/)
  }
  await client.close()
})

test("a model cannot leave the server's prefix, tools or budget", async () => {
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

test('over HTTP it serves callers with the token, and no page of a browser', async () => {
  const token = 'a-token-of-this-test'
  const child = spawn(CLIENT_NODE, [MAIN, 'mcp', '--listen', '0'], {
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

test("a terminal's text has no escape sequences, and shows the last state of an overwritten line", () => {
  const table: [shows: string, reads: string][] = [
    ['\u001b[1;34mbin\u001b[0m  \u001b[01;32mrun\u001b[0m\r\n', 'bin  run\n'],
    ['\u001b]0;user@host: ~\u0007$ ls', '$ ls'],
    ['10 %\r20 %\r100 %\r\ndone\r\n', '100 %\ndone\n'],
    ['lz\b\u001b[Ks\u0007', 'ls'],
    ['\u001b(B\u001b[?2004h$ ', '$ '],
  ]
  for (const [shows, reads] of table) assert.equal(terminalText(shows), reads)
})
