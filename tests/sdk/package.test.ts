import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { describe } from '../../contract/openapi.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { bundleSdk } from '../../tools/sdk/bundle.ts'
import { pythonTypes } from '../../tools/sdk/python-types.ts'
import { type Description, sdkTypes } from '../../tools/sdk/types.ts'
import { builtSdk } from '../support/built-clients.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const GZIPPED_BYTES_MAX = 40_000

test("the types of both SDKs are the contract's: npm run openapi writes them", () => {
  const description = describe([...APP_ROUTES, ...CELL_ROUTES], '/') as unknown as Description
  assert.equal(readFileSync(path.join(ROOT, 'sdk/typescript/src/schemas.ts'), 'utf8'), sdkTypes(description))
  assert.equal(readFileSync(path.join(ROOT, 'sdk/python/berth/types.py'), 'utf8'), pythonTypes(description))
})

test(`the SDK is one module that imports none at its start, of at most ${GZIPPED_BYTES_MAX} bytes gzipped`, async (t) => {
  const text = await bundleSdk('main')
  assert.doesNotMatch(text, /\b(?:import|from)\s*"/)
  const bytes = gzipSync(text).length
  t.diagnostic(`${bytes} bytes`)
  assert.ok(bytes < GZIPPED_BYTES_MAX, `${bytes} bytes`)
  const dependenciesOf = (name: string) =>
    (JSON.parse(readFileSync(path.join(ROOT, name), 'utf8')) as { dependencies: Record<string, string> }).dependencies
  assert.deepEqual(dependenciesOf('sdk/typescript/package.json'), { ws: dependenciesOf('package.json')['ws'] })
})

test('an error shows its class and a short source line', async () => {
  const text = await bundleSdk('main')
  const { CommandError } = (await import(
    `data:text/javascript,${encodeURIComponent(text)}`
  )) as typeof import('../../sdk/typescript/src/main.ts')
  assert.equal(CommandError.name, 'CommandError')
  const longest = Math.max(...text.split('\n').map((line) => line.length))
  assert.ok(longest < 500, `${longest} characters`)
})

test('a bundle for browsers has nothing of the WebSocket for older Node.js', async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [await builtSdk()],
    nodePaths: [path.join(ROOT, 'node_modules')],
    bundle: true,
    platform: 'browser',
    format: 'esm',
    write: false,
    metafile: true,
  })
  assert.equal(outputFiles.length, 1)
  const taken = Object.keys(metafile.inputs).filter((name) => name.includes('node_modules'))
  assert.deepEqual(
    taken.map((name) => name.replace(/.*node_modules\//, '')),
    ['ws/browser.js'],
  )
})

test('the committed bundle equals a new build', async () => {
  const text = await bundleSdk('testing/double')
  const { createDouble } = (await import(
    `data:text/javascript,${encodeURIComponent(text)}`
  )) as typeof import('../../sdk/typescript/src/testing/double.ts')
  const { berth } = createDouble({ programs: { greet: ({ stdout }) => void stdout('hello') } })
  const ws = await berth.open('bundled', { template: 'base' })
  assert.equal((await ws.exec(['greet'])).stdout, 'hello')
})
