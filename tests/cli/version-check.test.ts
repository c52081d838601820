import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import { builtCli } from '../support/built-clients.ts'
import { patience } from '../support/patience.ts'

const MAIN = await builtCli()
const CLIENT = {
  package: '@berth/cli',
  ecosystem: 'npm',
  latest: null,
  minimum_supported: '9.0.0',
  upgrade_command: 'install the next',
  release_notes_url: '',
}
const DAY_MS = 24 * 60 * 60_000

let folder: string
let url: string
let asked = 0
let credentials = 0
const server = createServer((request, response) => {
  asked += 1
  if (request.headers.authorization) credentials += 1
  response.setHeader('content-type', 'application/json').end(JSON.stringify({ clients: [CLIENT] }))
})
before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'berth-version-'))
  asked = 0
})
after(() => server.close())

const file = () => path.join(folder, 'version.json')

async function onTerminal(env: Record<string, string> = {}): Promise<string> {
  const command = `'${process.execPath}' --disable-warning=ExperimentalWarning '${MAIN}' profiles`
  const { PATH = '' } = process.env
  const child = spawn('script', ['-qec', command, '/dev/null'], { env: { PATH, BERTH_URL: url, BERTH_CONFIG_DIR: folder, ...env } })
  let shown = ''
  child.stdout.on('data', (bytes: Buffer) => void (shown += bytes.toString()))
  const [code] = (await once(child, 'close')) as [number]
  assert.equal(code, 0, shown)
  return shown
}

async function found(): Promise<{ client: typeof CLIENT }> {
  const changes = watch(folder)
  try {
    for (;;) {
      const text = existsSync(file()) ? readFileSync(file(), 'utf8') : ''
      if (text.includes('minimum_supported')) return JSON.parse(text) as { client: typeof CLIENT }
      await once(changes, 'change', { signal: AbortSignal.timeout(60_000) })
    }
  } finally {
    changes.close()
  }
}

test(
  'on a terminal the version is checked in the background once a day, without a credential, and shown on the next day',
  { timeout: patience(120_000) },
  async () => {
    assert.doesNotMatch(await onTerminal(), /supports/)
    assert.deepEqual((await found()).client, CLIENT)
    assert.doesNotMatch(await onTerminal(), /supports/)
    assert.deepEqual([asked, credentials], [1, 0])
    writeFileSync(file(), JSON.stringify({ asked_at: Date.now() - DAY_MS - 1, client: CLIENT }))
    assert.match(await onTerminal(), /the service supports 9\.0\.0 and newer\. Try: install the next/)
    rmSync(folder, { recursive: true, force: true })
  },
)

test('a missing service, a broken file and an unwritable folder make no command fail', { timeout: patience(120_000) }, async () => {
  writeFileSync(file(), 'no JSON')
  await onTerminal({ BERTH_URL: 'http://127.0.0.1:1' })
  await onTerminal({ BERTH_CONFIG_DIR: '/proc' })
  rmSync(folder, { recursive: true, force: true })
})

test('without a terminal, or when switched off, no version check is made', { timeout: patience(120_000) }, async () => {
  await onTerminal({ BERTH_NO_VERSION_CHECK: '1' })
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, 'profiles'], {
    env: { BERTH_URL: url, BERTH_CONFIG_DIR: folder },
    stdio: 'pipe',
  })
  await once(child, 'close')
  assert.equal(existsSync(file()), false)
  rmSync(folder, { recursive: true })
})
