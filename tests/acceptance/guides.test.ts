// An installation of its own: its machines send to an internet of the test's own, which has names.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { INTERNET_ADDRESS, type Internet, openInternet, OTHER_ADDRESS } from '../support/internet.ts'
import { NAME_SERVER, nameInternet } from '../support/internet-names.ts'
import { printedBy, readGuide } from '../support/readme.ts'
import { type Service, startService } from '../support/service.ts'

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

for (const page of ['egress.md', 'volumes.md', 'file-first.md', 'stdin.md', 'watch.md', 'trees.md', 'ports.md'])
  test(`the commands of docs/guides/${page} print what it says`, { timeout: 300_000 }, async () => {
    const guide = readGuide(page)
    assert.ok(guide.prints.length > 0)
    assert.equal(await printedBy(guide, service), guide.prints)
  })
