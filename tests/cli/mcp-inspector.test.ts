import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { bundleCli } from '../../tools/sdk/bundle.ts'
import { isLong } from '../support/depth.ts'
import { type Served, serveDouble } from './served.ts'
import { patience } from '../support/patience.ts'

const run = promisify(execFile)
const INSPECTOR = '2.12.0'
const TOKEN = 'a-token-of-this-test'
const LONG = { timeout: patience(600_000), skip: isLong ? false : 'npm run test:long' }

let served: Served
let folder: string
let cli: string
before(async () => {
  if (!isLong) return
  folder = mkdtempSync(path.join(tmpdir(), 'berth-inspector-'))
  served = await serveDouble()
  cli = path.join(folder, 'berth.cjs')
  await bundleCli(cli)
  writeFileSync(path.join(folder, 'package.json'), '{ "private": true }')
  const words = ['install', '--no-audit', '--no-fund', '--ignore-scripts', `@modelcontextprotocol/inspector@${INSPECTOR}`]
  await run('npm', words, { cwd: folder }) // this run inherits the environment that npm needs
})
after(async () => {
  if (!isLong) return
  await served[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const env = () => ({ BERTH_URL: served.url, BERTH_API_KEY: served.double.options.apiKey, BERTH_CONFIG_DIR: folder })

/** The inspector stores state in its home, so it gets one of its own. */
async function inspected(...words: string[]): Promise<unknown> {
  const { PATH = '' } = process.env
  const program = path.join(folder, 'node_modules/.bin/mcp-inspector')
  const { stdout } = await run(program, ['--cli', ...words], { cwd: folder, env: { PATH, HOME: folder } })
  return JSON.parse(stdout)
}

async function uses(...server: string[]): Promise<void> {
  const { tools } = (await inspected(...server, '--method', 'tools/list')) as { tools: { name: string; inputSchema: { type: string } }[] }
  assert.deepEqual([tools.length, new Set(tools.map(({ inputSchema }) => inputSchema.type))], [24, new Set(['object'])])
  const called = [
    '--method',
    'tools/call',
    '--tool-name',
    'exec',
    '--tool-arg',
    'workspace=inspected',
    '--tool-arg',
    'argv=["echo","hello"]',
  ]
  const { content, isError } = (await inspected(...server, ...called)) as { content: { text: string }[]; isError?: boolean }
  assert.deepEqual([isError ?? false, (JSON.parse(content[0]?.text ?? '') as { exit_code: number }).exit_code], [false, 0])
  assert.match(content[0]?.text ?? '', /hello/)
}

test("the inspector's command line lists and calls the tools over stdio", LONG, async () => {
  const variables = Object.entries(env()).flatMap(([name, value]) => ['-e', `${name}=${value}`])
  await uses(...variables, process.execPath, cli, 'mcp')
})

test("the inspector's command line lists and calls the tools over streamable HTTP", LONG, async () => {
  const child = spawn(process.execPath, [cli, 'mcp', '--listen', '0'], {
    env: { ...env(), BERTH_MCP_TOKEN: TOKEN },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  await uses(line.toString().trim(), '--transport', 'http', '--header', `Authorization: Bearer ${TOKEN}`)
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'close'), [0, null])
})
