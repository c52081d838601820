// Needs its own installation, whose machines reach a fake internet.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { NO_PYTHON, runCommands, runPythonPage, runTypescript } from '../support/client-guides.ts'
import { INTERNET_ADDRESS, type Internet, openInternet, OTHER_ADDRESS } from '../support/internet.ts'
import { NAME_SERVER, nameInternet } from '../support/internet-names.ts'
import { type Service, startService } from '../support/service.ts'
import { patience } from '../support/patience.ts'

let internet: Internet
let names: AsyncDisposable
let service: Service

before(async () => {
  internet = await openInternet()
  const NAMES = { 'api.example.com': '203.0.113.12', 'files.example.com': INTERNET_ADDRESS, 'other.example.com': OTHER_ADDRESS }
  names = await nameInternet(internet, NAMES)
  service = await startService({ settings: { uplink: internet.uplink, resolvers: NAME_SERVER } })
})
after(async () => {
  await service.stop()
  await names[Symbol.asyncDispose]()
  await internet.close()
})

for (const [language, run, skip] of [
  ['TypeScript', runTypescript, false],
  ['Python', runPythonPage, NO_PYTHON],
  ['command line', runCommands, false],
] as const)
  test(`the ${language} samples of docs/guides/egress.md print what it says`, { skip, timeout: patience(300_000) }, async () => {
    const { prints, printed } = await run('docs/guides/egress.md', { url: service.base_url, api_key: service.api_key })
    assert.notEqual(prints, '')
    assert.equal(printed, prints)
  })
