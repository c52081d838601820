import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Answer, seeder, SETTINGS, type World, world } from './support.ts'

let w: World
before(async () => {
  w = await world()
  const inputs = { CITY: {}, TOKEN: { kind: 'secret' as const, required: true }, EXTRA: { kind: 'secret' as const } }
  await seeder(w.database, w.clock, w.ids).template(w.a.organization_id, 'secretive', { ...SETTINGS, inputs })
})
after(() => w[Symbol.asyncDispose]())

const open = (key: string, body: object = {}) => w.open(key, { template: 'secretive', ...body })
const secret = async (name: string, body: object = {}): Promise<string> =>
  (await w.post(`/v1/projects/${w.a.project_id}/secrets`, { name, value: 'v', ...body })).body.id
const bound = async (id: string) => (await w.get(`/v1/workspaces/${id}/secrets`)).body.secrets.map(({ name }: { name: string }) => name)
const said = ({ status, body }: Answer) => [status, body.error.details.reason, body.error.details.names, body.error.details.kind]

test('a required secret that the workspace may not use is input_required of kind secret, and nothing is created', async () => {
  assert.deepEqual(said(await open('first')), [422, 'input_required', ['TOKEN'], 'secret'])
  const id = await secret('TOKEN', { allowed_tools: ['pty'] })
  assert.deepEqual(said(await open('first')), [422, 'input_required', ['TOKEN'], 'secret'])
  await w.call('DELETE', `/v1/secrets/${id}`)
  assert.deepEqual((await w.get('/v1/workspaces?key_prefix=first')).body.data, [])
})

test("the first open binds the version's permitted secret inputs in addition to the given ones", async () => {
  for (const name of ['TOKEN', 'OTHER']) await secret(name)
  const { status, body } = await open('bound', { secrets: ['OTHER'] })
  assert.equal(status, 202)
  assert.deepEqual(await bound(body.workspace.id), ['OTHER', 'TOKEN'])
  assert.deepEqual((await w.get(`/v1/workspaces/${body.workspace.id}/inputs`)).body, {})
})

test('secret inputs are bound again only when secrets are given', async () => {
  const { id } = (await open('again')).body.workspace
  await w.call('PUT', `/v1/workspaces/${id}/secrets`, { body: { names: [] } })
  await open('again')
  assert.deepEqual(await bound(id), [])
  await secret('EXTRA')
  await open('again', { secrets: [] })
  assert.deepEqual(await bound(id), ['EXTRA', 'TOKEN'])
})

test('a deleted required secret is reported as deleted until a new one has its name; an optional one is not', async () => {
  const { id } = (await open('deleted')).body.workspace
  const statuses = async () => (await w.get(`/v1/workspaces/${id}/secrets`)).body.secrets
  const has = { TOKEN: { name: 'TOKEN', status: 'available' }, EXTRA: { name: 'EXTRA', status: 'available' } }
  assert.deepEqual(await statuses(), [has.EXTRA, has.TOKEN])
  const { data } = (await w.get(`/v1/projects/${w.a.project_id}/secrets`)).body as { data: { id: string; name: string }[] }
  for (const { id, name } of data) if (name in has) await w.call('DELETE', `/v1/secrets/${id}`)
  assert.deepEqual(await statuses(), [{ name: 'TOKEN', status: 'deleted' }])
  await secret('TOKEN')
  assert.deepEqual(await statuses(), [])
  await open('deleted', { secrets: [] })
  assert.deepEqual(await statuses(), [has.TOKEN])
})

test("a secret's value cannot be an input of an open", async () => {
  const refused = await open('told', { inputs: { TOKEN: 'in the clear', CITY: 'Rome' } })
  assert.deepEqual(said(refused), [422, 'input_invalid', ['TOKEN'], undefined])
})
