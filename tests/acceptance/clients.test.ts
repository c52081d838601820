import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { runCommands, runTypescript } from '../support/client-guides.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
before(async () => {
  service = await sharedService()
})
after(() => service.stop())
const where = () => ({ url: service.base_url, api_key: service.api_key })

test('the samples of docs/guides/typescript.md print what it says', { timeout: 240_000 }, async () => {
  const { prints, printed } = await runTypescript('docs/guides/typescript.md', where())
  assert.equal(printed, prints)
})

test('the commands of docs/guides/cli.md print what it says', { timeout: 240_000 }, async () => {
  const { prints, printed } = await runCommands('docs/guides/cli.md', where())
  assert.equal(printed, prints)
})

test('the three lines of README.md run a command', { timeout: 240_000 }, async () => {
  assert.match(readFileSync(path.resolve(import.meta.dirname, '../../README.md'), 'utf8'), /from '@berth\/sdk'/)
  assert.equal((await runTypescript('README.md', where())).printed, '42\n')
})
