// Needs its own installation, whose machines reach a fake internet.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { EgressDenial, WorkspaceEgressPolicy } from '../../contract/schemas/egress.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { INTERNET_ADDRESS, type Internet, openInternet, OTHER_ADDRESS } from '../support/internet.ts'
import { until } from '../support/processes.ts'
import { type Service, startService } from '../support/service.ts'
import { patience } from '../support/patience.ts'

const NAME = 'not-allowed.example.com'
let internet: Internet
let service: Service
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  internet = await openInternet()
  service = await startService({ settings: { uplink: internet.uplink } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('egress')
})
after(async () => {
  await service.stop()
  await internet.close()
})

const policyOf = async ({ id }: { id: string }) => (await client.api<WorkspaceEgressPolicy>(`/v1/workspaces/${id}/egress-policy`)).body

async function enforced(of: { id: string }, version: number): Promise<WorkspaceEgressPolicy> {
  let seen = await policyOf(of)
  await until(`version ${version} is in force`, 60_000, async () => {
    seen = await policyOf(of)
    return seen.version === version && seen.enforcement.state === 'enforced'
  })
  return seen
}

async function put(of: { id: string }, json: object): Promise<WorkspaceEgressPolicy> {
  const answer = await client.api<WorkspaceEgressPolicy>(`/v1/workspaces/${of.id}/egress-policy`, { method: 'PUT', json })
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  return enforced(of, answer.body.version)
}

/** curl's exit code; 7: connection refused; 28: timeout. */
async function reach(from: OpenedWorkspace, address: string): Promise<{ code: number | null; ms: number }> {
  const began = performance.now()
  const { exit } = await client.run(from, ['curl', '-sS', '--max-time', '20', '-o', '/dev/null', `http://${address}/`])
  return { code: exit.exit_code, ms: performance.now() - began }
}

async function assertRefused(from: OpenedWorkspace, address: string): Promise<void> {
  const { code, ms } = await reach(from, address)
  assert.equal(code, 7)
  assert.ok(ms < 10_000, `told after ${ms} ms`)
}

async function assertReached(from: OpenedWorkspace, address: string): Promise<void> {
  assert.equal((await reach(from, address)).code, 0)
}

test(
  'a workspace without a policy reaches public addresses, and its default policy is in force',
  { timeout: patience(300_000) },
  async () => {
    const policy = await enforced(workspace, 0)
    assert.deepEqual([policy.mode, policy.source], ['allow_all', 'platform'])
    await assertReached(workspace, INTERNET_ADDRESS)
  },
)

test('deny_all blocks a running machine, and its denials can be read', { timeout: patience(300_000) }, async () => {
  await put(workspace, { mode: 'deny_all' })
  await assertRefused(workspace, INTERNET_ADDRESS)
  await client.run(workspace, ['getent', 'hosts', NAME])
  let denials: EgressDenial[] = []
  await until('both refusals are told', 60_000, async () => {
    denials = (await client.api<{ data: EgressDenial[] }>(`/v1/workspaces/${workspace.id}/egress-policy/denials`)).body.data
    return denials.some(({ address, port }) => address === INTERNET_ADDRESS && port === 80) && denials.some(({ name }) => name === NAME)
  })
  assert.ok(denials.every(({ count }) => count >= 1))
})

test('an allowlist permits only its entries, also after suspend and resume and in a fork', { timeout: patience(300_000) }, async () => {
  await put(workspace, { mode: 'allowlist', cidrs: [`${INTERNET_ADDRESS}/32`] })
  await assertReached(workspace, INTERNET_ADDRESS)
  await assertRefused(workspace, OTHER_ADDRESS)
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  workspace = await client.open('egress')
  await assertReached(workspace, INTERNET_ADDRESS)
  await assertRefused(workspace, OTHER_ADDRESS)
  await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'egress-fork' } })
  const fork = await client.open('egress-fork')
  await assertReached(fork, INTERNET_ADDRESS)
  await assertRefused(fork, OTHER_ADDRESS)
  assert.equal((await enforced(fork, 1)).source, 'workspace')
})

test('a policy survives a kill of hostd, and holds until it is deleted', { timeout: patience(300_000) }, async () => {
  process.kill(service.pid('hostd'), 'SIGKILL')
  await assertRefused(workspace, OTHER_ADDRESS)
  await until('hostd serves again', 60_000, async () => (await policyOf(workspace)).enforcement.state === 'enforced')
  await assertRefused(workspace, OTHER_ADDRESS)
  const cleared = await client.api(`/v1/workspaces/${workspace.id}/egress-policy`, { method: 'DELETE' })
  assert.equal(cleared.status, 204)
  await until('everything is reached again', 60_000, async () => (await reach(workspace, OTHER_ADDRESS)).code === 0)
})
