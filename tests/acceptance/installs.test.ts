// A user with a clone follows docs/guides/start.md.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { isLong } from '../support/depth.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

const run = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../..')
const GUIDE = readFileSync(path.join(ROOT, 'docs/guides/start.md'), 'utf8')
const { PATH = '' } = process.env
const OPTIONS = { timeout: patience(600_000) }

const commandFor = (client: string) => new RegExp(`^\\| ${client} \\| .* \\| \`([^\`]+)\` \\|$`, 'm').exec(GUIDE)?.[1] ?? ''
const sampleIn = (language: string) => new RegExp(`^## 3\\..*?^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'ms').exec(GUIDE)?.[1] ?? ''

test('the guide has one installation command per client, and the README has the same', () => {
  const readme = readFileSync(path.join(ROOT, 'README.md'), 'utf8')
  for (const client of ['TypeScript', 'Python', 'Command line']) {
    assert.match(commandFor(client), /^(npm|pip) install .*~\/berth\//)
    assert.ok(readme.includes(`\`${commandFor(client)}\``), client)
  }
})

// npm and pip download packages.
if (isLong) {
  let service: SharedService
  let home: string
  before(async () => {
    service = await sharedService()
    home = mkdtempSync(path.join(tmpdir(), 'berth-installs-'))
    mkdirSync(path.join(home, 'berth'))
    await run('sh', ['-c', `git -C "$0" archive HEAD | tar -x -C "$1"`, ROOT, path.join(home, 'berth')])
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(home, 'berth/node_modules')) // as `npm start` leaves them
    const said: string[] = []
    const { ensureClients } = (await import(
      path.join(home, 'berth/tools/setup/clients.mjs')
    )) as typeof import('../../tools/setup/clients.mjs')
    const given = { node: process.execPath, log: (line: string) => void said.push(line) }
    await ensureClients(given)
    await ensureClients(given) // changes nothing
    assert.match(said.join(), /^clients are built \([\d.]+ s\)$/)
  })
  after(async () => {
    await service.stop()
    rmSync(home, { recursive: true })
  })

  const typed = async (folder: string, command: string, program = ''): Promise<string> => {
    const cwd = path.join(home, folder)
    mkdirSync(cwd, { recursive: true })
    const env = { ...process.env, HOME: home, npm_config_prefix: path.join(home, 'global'), BERTH_CONFIG_DIR: cwd }
    const known = { BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key }
    const paths = [path.join(cwd, 'venv/bin'), path.join(home, 'global/bin'), path.dirname(process.execPath), PATH].join(':')
    const script = `set -euo pipefail\n${command.replaceAll('~', home)}\n${program}`
    const ran = run('bash', ['-c', script], { cwd, env: { ...env, ...known, PATH: paths } })
    ran.child.stdin?.end() // exec reads a pipe to its end
    const { stdout, stderr } = await ran
    assert.doesNotMatch(stderr, /npm warn/)
    return stdout
  }

  test('one command installs the TypeScript SDK, and the three-line example runs', OPTIONS, async () => {
    await typed('ts', `npm init --yes > init.txt\n${commandFor('TypeScript')}`)
    writeFileSync(path.join(home, 'ts/sample.mjs'), sampleIn('ts'))
    assert.equal(await typed('ts', 'node sample.mjs'), '42\n')
  })

  test('one command installs the Python SDK, and the three-line example runs', OPTIONS, async () => {
    await typed('py', `python3 -m venv venv\n${commandFor('Python')}`)
    writeFileSync(path.join(home, 'py/sample.py'), sampleIn('python'))
    assert.equal(await typed('py', 'python sample.py'), '42\n')
  })

  test('one command installs the command line, and the two-line example runs', OPTIONS, async () => {
    await typed('cli', commandFor('Command line'))
    assert.equal(await typed('cli', sampleIn('sh')), '42\n')
  })
}
