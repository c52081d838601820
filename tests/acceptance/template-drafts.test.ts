import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { TemplateBuild } from '../../contract/schemas/template-builds.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { NO_PYTHON, runPythonPage, runTypescript } from '../support/client-guides.ts'
import { until } from '../support/processes.ts'
import { printedBy, readGuide } from '../support/readme.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const DRAFT = '/v1/templates/drafted-real/draft'
const shell = async (at: OpenedWorkspace, script: string) => (await client.run(at, ['sh', '-c', script])).stdout.trim()

interface Operation {
  id: string
  state: string
  completed_at: string | null
  input: { state_id?: string }
}

interface Opened {
  workspace: { id: string }
  operation: Operation | null
}

async function opened(path: string, json: object): Promise<OpenedWorkspace> {
  const { status, body } = await client.api<Opened>(path, { json })
  assert.equal(status, 202, JSON.stringify(body))
  assert.equal((await over(`/v1/operations/${body.operation?.id}`)).state, 'succeeded')
  return running(body.workspace.id)
}

async function running(id: string): Promise<OpenedWorkspace> {
  const { cell_endpoint } = (await client.api<{ cell_endpoint: string }>(`/v1/workspaces/${id}`)).body
  return { id, endpoint: cell_endpoint, token: await client.token(id), operation_id: null }
}

async function over(path: string): Promise<Operation> {
  let { body } = await client.api<Operation>(path)
  await until(`${path} is over`, 300_000, async () => {
    body = (await client.api<Operation>(path, { headers: { prefer: 'wait=20' } })).body
    return body.completed_at !== null
  })
  return body
}

async function published(json: object): Promise<TemplateBuild> {
  const { status, body } = await client.api<{ build: TemplateBuild }>(`${DRAFT}/publish`, { json })
  assert.equal(status, 202, JSON.stringify(body))
  await over(`/v1/template-builds/${body.build.id}`)
  return (await client.api<TemplateBuild>(`/v1/template-builds/${body.build.id}`)).body
}

test('a test instance has the captured state of a draft and cannot change the draft, and a published version has its content', async () => {
  const draft = await opened(DRAFT, { base: 'base@1' })
  await shell(draft, 'mkdir ~/app && echo captured > ~/app/name && sudo rm /usr/share/zoneinfo/UTC && echo scratch > /tmp/scratch')
  const capture = (await client.api<Operation>(`${DRAFT}/states`, { json: { label: 'first' } })).body
  assert.equal((await over(`/v1/operations/${capture.id}`)).state, 'succeeded')
  assert.equal(await shell(draft, 'cat ~/app/name; cat /tmp/scratch; echo later > ~/app/name'), 'captured\nscratch')

  const instance = await opened(`${DRAFT}/test-instances`, {})
  const look = 'cat ~/app/name; ls /usr/share/zoneinfo/UTC /tmp/scratch ~/app/more 2>/dev/null; echo looked'
  assert.equal(await shell(instance, look), 'captured\nlooked')
  await shell(instance, 'echo of the instance > ~/app/name; echo more > ~/app/more')
  assert.equal(await shell(draft, 'cat ~/app/name; ls ~/app'), 'later\nname')
  const reset = (await client.api<Operation>(`/v1/workspaces/${instance.id}/reset`, { json: { confirm_destructive: true } })).body
  assert.equal((await over(`/v1/operations/${reset.id}`)).state, 'succeeded')
  assert.equal(await shell(await running(instance.id), look), 'captured\nlooked')

  const of_state = await published({ state_id: capture.input.state_id, auto_publish: true })
  assert.deepEqual([of_state.state, of_state.error, of_state.version, of_state.published], ['succeeded', null, 1, true])
  assert.equal(await shell(await client.open('draft-v1', { template: 'drafted-real' }), look), 'captured\nlooked')
  const of_draft = await published({ auto_publish: true })
  assert.deepEqual([of_draft.state, of_draft.version, of_draft.published], ['succeeded', 2, true])
  assert.equal(await shell(await client.open('draft-v2', { template: 'drafted-real' }), look), 'later\nlooked')

  const discard = (await client.api<Operation>(DRAFT, { method: 'DELETE' })).body
  assert.equal((await over(`/v1/operations/${discard.id}`)).state, 'succeeded')
  const ended = (await client.api<{ ended_reason: string }>(`/v1/workspaces/${instance.id}`)).body
  assert.equal(ended.ended_reason, 'draft_discarded')
})

test('the commands of docs/guides/template-drafts.md print what it says', { timeout: patience(300_000) }, async () => {
  const guide = readGuide('template-drafts.md')
  assert.ok(guide.prints.length > 0)
  assert.equal(await printedBy(guide, service), guide.prints)
})

const where = () => ({ url: service.base_url, api_key: service.api_key })

test('the TypeScript of docs/guides/template-drafts.md prints what its comments say', { timeout: patience(300_000) }, async () => {
  assert.equal((await runTypescript('docs/guides/template-drafts.md', where())).printed, 'first\nsucceeded\n')
})

test(
  'the Python of docs/guides/template-drafts.md prints what its comments say',
  { skip: NO_PYTHON, timeout: patience(300_000) },
  async () => {
    assert.equal((await runPythonPage('docs/guides/template-drafts.md', where())).printed, 'first\nsucceeded\n')
  },
)
