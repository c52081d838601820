import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { startService, type Service } from '../support/service.ts'

const README = path.resolve(import.meta.dirname, '../../README.md')
let service: Service
const directory = mkdtempSync(path.join(tmpdir(), 'berth-readme-'))

before(async () => {
  service = await startService()
})
after(async () => {
  rmSync(directory, { recursive: true, force: true })
  await service.stop()
})

const blocks = (language: string, text: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, block = '']) => block)

test("the README's tour prints what it says", async () => {
  const tour = /^## A tour in five minutes\n(.*?)^## /ms.exec(readFileSync(README, 'utf8'))?.[1] ?? ''
  const [first = '', ...commands] = blocks('sh', tour)
  assert.match(first, /^export BERTH=http:\/\/127\.0\.0\.1:8080 KEY=sfk_/)
  const script = `set -euo pipefail\n${commands.join('\n')}`
  const { stdout } = await promisify(execFile)('bash', ['-c', script], {
    cwd: directory,
    env: { ...process.env, BERTH: service.base_url, KEY: service.api_key },
    timeout: 600_000,
  })
  assert.equal(stdout, blocks('text', tour).join(''))
})
