import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { depth } from '../support/depth.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

const ROUNDS = depth({ short: 2, long: 20 })
const CALLS = 50
const FILE = 'path=/home/user/.bashrc'
const CALL_KINDS = [
  (at: OpenedWorkspace) => client.tool(at, `/files?${FILE}`),
  (at: OpenedWorkspace) => client.tool(at, '/exec', { json: { argv: ['/bin/true'] } }),
  (at: OpenedWorkspace) => client.tool(at, `/files/stat?${FILE}`),
  (at: OpenedWorkspace) => client.tool(at, `/files?path=/home/user/new`, { method: 'PUT', bytes: Buffer.from('new') }),
  (at: OpenedWorkspace) => client.tool(at, '/processes'),
] as const

/** The connections are already open, so only admission can refuse. */
async function answersTo(at: OpenedWorkspace): Promise<string[]> {
  const calls = Array.from({ length: CALLS }, (_, n) => CALL_KINDS[n % CALL_KINDS.length]?.(at) ?? Promise.reject(new Error('no kind')))
  const answers = (await Promise.all(calls)) as { status: number; body: { error?: { details?: { reason?: string } } } }[]
  return answers.map(({ status, body }) => `${status} ${body.error?.details?.reason ?? ''}`)
}

for (const [ending, body, end] of [
  ['a delete', {}, (id: string) => client.api(`/v1/workspaces/${id}`, { method: 'DELETE' })],
  ['a close', { lifetime: 'session' }, (id: string) => client.api(`/v1/workspaces/${id}/close`, { method: 'POST' })],
] as const) {
  test(`of 50 calls in the moment after the answer to ${ending} none is served, ${ROUNDS} times`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const workspace = await client.open(`${ending} ${round}`.replaceAll(' ', '-'), body)
      const served = new Set(await answersTo(workspace))
      assert.deepEqual([...served].sort(), ['200 ', '201 '])
      const ended = await end(workspace.id)
      const refused = new Set(await answersTo(workspace))
      assert.equal(ended.status, 202)
      assert.deepEqual([...refused], ['401 revoked_workspace'])
    }
  })
}
