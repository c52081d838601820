import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { sdkSuite } from '../sdk/suite.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let berth: Berth
before(async () => {
  service = await sharedService()
  berth = new Berth({ url: service.base_url, apiKey: service.api_key })
})
after(() => service.stop())

sdkSuite('real machines', () => ({ berth, secret: service.api_key }))

test('a command continues over a suspend, and its reader misses nothing', { timeout: patience(240_000) }, async () => {
  const ws = await berth.open('goes-on', { template: 'base' })
  const count = 'for i in $(seq 1 40); do echo $i; sleep 0.1; done'
  const command = await ws.start(['bash', '-c', count])
  let text = ''
  for await (const chunk of command) {
    if (text === '') await (await berth.workspace(ws.id)).suspend()
    text += chunk.text
  }
  assert.equal(text, Array.from({ length: 40 }, (_, at) => `${at + 1}\n`).join(''))
  assert.equal((await command.result()).exitCode, 0)
})
