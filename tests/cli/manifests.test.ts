import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { CLIENT_PACKAGES } from '../../contract/client-packages.ts'
import { VERSION } from '../../sdk/typescript/src/version-check.ts'
import { bundleCli } from '../../tools/sdk/bundle.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

interface Manifest {
  name: string
  version: string
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
  berth: { minimum_supported: string; distributed: boolean }
}
const manifest = (file: string) => JSON.parse(readFileSync(path.join(ROOT, file), 'utf8')) as Manifest

test('GET /v1/client-versions returns the versions of the manifests', () => {
  const said = ['sdk/typescript/package.json', 'cli/package.json'].map((file) => {
    const { name, version, berth } = manifest(file)
    return { package: name, version, is_distributed: berth.distributed, minimum_supported: berth.minimum_supported }
  })
  const python = readFileSync(path.join(ROOT, 'sdk/python/pyproject.toml'), 'utf8')
  const field = (name: string) => new RegExp(`^${name} = "?([^"\\n]*)"?$`, 'm').exec(python)?.[1] ?? ''
  said.push({
    package: field('name'),
    version: field('version'),
    is_distributed: field('distributed') === 'true',
    minimum_supported: field('minimum_supported'),
  })
  const told = CLIENT_PACKAGES.map(({ ecosystem: _where, upgrade_command: _how, ...rest }) => rest)
  assert.deepEqual(told, said)
  const inside = readFileSync(path.join(ROOT, 'sdk/python/berth/__init__.py'), 'utf8')
  assert.deepEqual([VERSION, /^__version__ = "(.*)"$/m.exec(inside)?.[1]], [told[0]?.version, told[2]?.version])
})

test("the command line is built with the clone's packages", () => {
  const { devDependencies = {}, dependencies } = manifest('cli/package.json')
  const all = manifest('package.json')
  const root = { ...all.dependencies, ...all.devDependencies }
  assert.deepEqual(
    [Object.fromEntries(Object.keys(devDependencies).map((name) => [name, root[name]])), dependencies],
    [devDependencies, undefined],
  )
})

test('npm runs no script of ours when it installs a client, since npm warns of scripts or refuses them', () => {
  for (const file of ['sdk/typescript/package.json', 'cli/package.json'])
    assert.deepEqual(Object.keys((JSON.parse(readFileSync(path.join(ROOT, file), 'utf8')) as { scripts: object }).scripts), ['prepack'])
})

test('the command line is one file, which runs anywhere and prints its version', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-bundle-'))
  const file = path.join(folder, 'berth.cjs')
  await bundleCli(file)
  const { stdout } = spawnSync(file, ['--version'], { encoding: 'utf8', env: { PATH: process.env['PATH'] ?? '' } })
  assert.equal(stdout.trim(), manifest('cli/package.json').version)
  const mcp = (words: string[], input: string) =>
    spawnSync(file, ['mcp', ...words], { encoding: 'utf8', input, env: { PATH: process.env['PATH'] ?? '', BERTH_API_KEY: 'sfk_x' } })
  const refused = mcp(['--tools', 'nonsense'], '')
  assert.match(refused.stderr, /--tools takes some of[^]*Try: berth mcp --help/)
  assert.equal(refused.status, 2)
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  const answer = mcp([], `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`).stdout
  assert.equal((JSON.parse(answer) as { result: { serverInfo: { name: string } } }).result.serverInfo.name, 'berth')
  rmSync(folder, { recursive: true })
})
