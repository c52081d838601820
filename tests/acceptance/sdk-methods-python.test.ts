import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { calledOperations } from '../sdk/operation-methods.ts'
import { operationOf } from '../sdk/operations.ts'
import { NO_PYTHON, PYTHON_PACKAGES } from '../support/client-guides.ts'
import { ownerOf } from '../support/owner.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

const PYTHON = path.resolve(import.meta.dirname, '../../sdk/python')
let service: SharedService
let person: string
before(async () => {
  service = await sharedService()
  person = await ownerOf(service)
})
after(() => service.stop())

type Line = { name: string; why: string; seconds: number } | { requests: string[]; left_out: string[] }

for (const [name, client] of [
  ['sync', 'threads'],
  ['async', 'asyncio'],
] as const)
  test(
    `every public method of the Python client for ${client} is called on real machines`,
    { skip: NO_PYTHON, timeout: patience(400_000) },
    async (t) => {
      const env = { BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key, BERTH_TEST_PERSON: person }
      const child = spawn('python3', [path.join(PYTHON, 'tests/methods.py'), name], {
        env: { PATH: process.env['PATH'] ?? '', PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1', ...env },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.signal.addEventListener('abort', () => child.kill())
      let seen: { requests: string[]; left_out: string[] } | undefined
      for await (const text of createInterface(child.stdout)) {
        const line = JSON.parse(text) as Line
        if ('requests' in line) seen = line
        else
          await t.test(line.name, (each) => {
            each.diagnostic(`${line.seconds} s`)
            assert.equal(line.why, '')
          })
      }
      assert.ok(seen, 'it broke off')
      await t.test('no public method is left out', () => assert.deepEqual(seen.left_out, []))
      await t.test('each operation that has a method was asked for by the methods', () => {
        const asked = seen.requests.map((request) => operationOf(...(request.split(' ') as [string, string])))
        assert.deepEqual(calledOperations().filter((id) => !asked.includes(id)), []) // prettier-ignore
      })
    },
  )
