// Long run only: the programs are several hundred megabytes.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { transform } from 'esbuild'
import { bundleSdk } from '../../tools/sdk/bundle.ts'
import { SEEN } from '../sdk/smoke.ts'
import { openChromium } from '../support/chromium.ts'
import { isLong } from '../support/depth.ts'
import { patience } from '../support/patience.ts'
import { PLATFORM_NAMES, runOn } from '../support/platforms.ts'
import { startService } from '../support/service.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

const SMOKE = path.resolve(import.meta.dirname, '../sdk/smoke.ts')
/** Node.js before 22 needs the package `ws`. */
const MODULES = path.resolve(import.meta.dirname, '../../node_modules')
const OPTIONS = { skip: isLong ? false : 'npm run test:long', timeout: patience(900_000) }

let service: SharedService
let folder: string
before(async () => {
  if (!isLong) return
  service = await sharedService()
  folder = mkdtempSync(path.join(tmpdir(), 'berth-platforms-'))
  symlinkSync(MODULES, path.join(folder, 'node_modules'))
  await bundleSdk('main', path.join(folder, 'sdk.mjs'))
  writeFileSync(path.join(folder, 'smoke.mjs'), (await transform(readFileSync(SMOKE), { loader: 'ts' })).code)
})
after(async () => {
  if (!isLong) return
  rmSync(folder, { recursive: true })
  await service.stop()
})

for (const platform of PLATFORM_NAMES) {
  test(`the SDK's commands, files, streams and terminals are whole on ${platform}`, OPTIONS, async () => {
    const key = `platform-${platform.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`
    const file = path.join(folder, `${key}.mjs`)
    writeFileSync(
      file,
      `import { Berth } from './sdk.mjs'
import { smoke } from './smoke.mjs'
const seen = await smoke({ Berth, url: ${JSON.stringify(service.base_url)}, apiKey: ${JSON.stringify(service.api_key)}, key: '${key}' })
console.log(JSON.stringify(seen))
`,
    )
    assert.deepEqual(JSON.parse(await runOn(platform, file, {})), SEEN)
  })
}

test(
  'the commands, files, streams and terminals of the SDK work in Chromium on a page of an allowed origin, and on no other',
  OPTIONS,
  async () => {
    const image = process.env['BERTH_TEST_BROWSER_TEMPLATE']
    assert.ok(image !== undefined)
    const server = createServer((request, response) => {
      const name = path.basename(request.url ?? '')
      const is_script = name === 'sdk.mjs' || name === 'smoke.mjs'
      response.setHeader('content-type', is_script ? 'text/javascript' : 'text/html')
      response.end(is_script ? readFileSync(path.join(folder, name)) : '<!doctype html>')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    // This test starts its own installation, because the allowed origins are a setting.
    const open = await startService({ settings: { cors_origins: [`http://127.0.0.1:${port}`], slots: 1, shells: 1 } })
    const chromium = await openChromium(image)
    const given = JSON.stringify({ url: open.base_url, apiKey: open.api_key, key: 'platform-chromium' })
    const program = `Promise.all([import('/sdk.mjs'), import('/smoke.mjs')]).then(([{ Berth }, { smoke }]) => smoke({ Berth, ...${given} }))`
    try {
      await chromium.goto(`http://127.0.0.1:${port}/`)
      assert.deepEqual(await chromium.evaluate(program), SEEN)
      // Another host name is another origin.
      await chromium.goto(`http://localhost:${port}/`)
      const me = `fetch(${JSON.stringify(`${open.base_url}/v1/me`)}, { headers: { authorization: ${JSON.stringify(`Bearer ${open.api_key}`)} } })`
      assert.equal(await chromium.evaluate(`${me}.then(({ status }) => status, ({ name }) => name)`), 'TypeError')
    } finally {
      await chromium.close()
      await open.stop()
      server.closeAllConnections()
      server.close()
    }
  },
)
