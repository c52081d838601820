// The shipped clients run on the oldest Node.js that they support.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { bundleSdk } from '../../tools/sdk/bundle.ts'
import { programOf, runOn } from '../support/platforms.ts'
import { serveToOthers } from '../sdk/served-double.ts'
import { patience } from '../support/patience.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const NODE = await programOf('Node.js 20')

test('the tested Node.js is the oldest version of both packages, and it has no WebSocket', () => {
  const said = ['sdk/typescript', 'cli'].map(
    (name) => (JSON.parse(readFileSync(path.join(ROOT, name, 'package.json'), 'utf8')) as { engines: { node: string } }).engines.node,
  )
  const { stdout } = spawnSync(NODE, ['-p', '`>=${process.versions.node.replace(/\\.0$/, "")} ${typeof WebSocket}`'], { encoding: 'utf8' })
  assert.deepEqual([`${said[0] ?? ''} undefined`, said[1]], [stdout.trim(), said[0]])
})

for (const name of ['cli', 'mcp', 'sync'])
  test(`the command line passes ${name}.test.ts there`, { timeout: patience(240_000) }, () => {
    const { NODE_TEST_CONTEXT: _ours, ...env } = process.env
    const words = [
      '--disable-warning=ExperimentalWarning',
      '--test',
      '--test-reporter=tap',
      path.join(import.meta.dirname, `${name}.test.ts`),
    ]
    const { status, stdout } = spawnSync(process.execPath, words, { encoding: 'utf8', env: { ...env, BERTH_TEST_CLIENT_NODE: NODE } })
    assert.equal(status, 0, stdout)
  })

test('the SDK runs a command and a terminal on the oldest Node.js', { timeout: patience(120_000) }, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-node-20-'))
  await using served = await serveToOthers()
  try {
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules')) // as npm installs it
    await bundleSdk('main', path.join(folder, 'sdk.mjs'))
    const file = path.join(folder, 'program.mjs')
    writeFileSync(
      file,
      `import { Berth } from './sdk.mjs'
const ws = await new Berth().open('oldest')
const { stdout } = await ws.exec(['echo', 'said'])
const shell = await ws.shell({ argv: ['cat'] })
shell.write('typed')
for await (const { text } of shell) {
  console.log(stdout.trim(), text)
  break
}
`,
    )
    assert.equal(await runOn('Node.js 20', file, { BERTH_URL: served.url, BERTH_API_KEY: served.api_key }), 'said typed\n')
  } finally {
    rmSync(folder, { recursive: true })
  }
})
