import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createClient } from '../support/client.ts'
import { SHARED_SERVICES_VARIABLE, sharedService, type SharedService, startSharedServices } from '../support/shared-services.ts'

// Two files that share an installation must not affect each other.
let stop = () => Promise.resolve()
let one: SharedService
let other: SharedService
const small = { caps: { memory_mib: 512 } }

before(async () => {
  if (process.env[SHARED_SERVICES_VARIABLE] === undefined) {
    const shared = await startSharedServices(1)
    Object.assign(process.env, shared.env)
    stop = shared.stop
  }
  const [first] = JSON.parse(process.env[SHARED_SERVICES_VARIABLE] ?? '[]') as string[]
  process.env[SHARED_SERVICES_VARIABLE] = JSON.stringify([first])
  one = await sharedService()
  other = await sharedService()
})
after(async () => {
  await other.stop()
  await stop()
})

const clientOf = ({ base_url, api_key }: SharedService) => createClient(base_url, api_key)
const machinesOf = async (service: SharedService) => (await service.inventory()).machines.map(({ subject }) => subject.id)

test('each test file sees only its own workspaces and may not touch those of another', async () => {
  const [mine, theirs] = [await clientOf(one).open('same', small), await clientOf(other).open('same', small)]
  assert.notEqual(mine.id, theirs.id)
  assert.deepEqual([await machinesOf(one), await machinesOf(other)], [[mine.id], [theirs.id]])
  await assert.rejects(one.kill_machine(theirs.id), /another file's/)
  await assert.rejects(one.pool_file(theirs.id, '**/manifest.json').read(), /another file's/)
})

test('a test file cannot run commands that affect the whole installation', () => {
  for (const command of [
    ['doctor', '--json'],
    ['plan', 'set', 'unlimited'],
    ['organization', 'allowance', 'default', 'none'],
  ])
    assert.throws(() => one.admin(...command), /everybody's/, command.join(' '))
})

test('a test file that stops leaves nothing behind and removes nothing of others', async () => {
  await clientOf(one).operate(`/v1/workspaces/${(await machinesOf(one))[0]}/suspend`)
  await clientOf(one).open('second', { ...small, lifetime: 'session' })
  await one.stop()
  assert.deepEqual(await machinesOf(one), [])
  assert.deepEqual(
    (await one.inventory()).files.filter(({ disks, checkpoints }) => disks.length + checkpoints.length > 0),
    [],
  )
  assert.equal((await machinesOf(other)).length, 1)
})

test('the leftovers of a killed test file are deleted when the next one starts', async () => {
  const [client_file, shared_file] = ['client.ts', 'shared-services.ts'].map((name) => path.join(import.meta.dirname, '../support', name))
  const program = `
    import { createClient } from '${client_file}'
    import { sharedService } from '${shared_file}'
    const { base_url, api_key } = await sharedService()
    const { id } = await createClient(base_url, api_key).open('left', ${JSON.stringify(small)})
    console.log(id)
    setInterval(() => undefined, 1000)`
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer]
  const id = chunk.toString().trim()
  const stateOf = async () =>
    (await other.query<{ observed_state: string }>('select observed_state from workspaces where id = $1', [id]))[0]?.observed_state
  assert.equal(await stateOf(), 'running')
  child.kill('SIGKILL')
  await once(child, 'exit')
  const next = await sharedService()
  assert.equal(await stateOf(), 'deleted')
  await next.stop()
})
