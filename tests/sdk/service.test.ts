import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { openServiceWorld, endOf, type ServiceWorld } from './service-world.ts'
import { play, sdkSuite } from './suite.ts'
import { patience } from '../support/patience.ts'

let w: ServiceWorld
before(async () => {
  w = await openServiceWorld()
  w.play = (session) => {
    const [program, , script = ''] = session.request['argv'] as string[]
    if (program !== 'sh' && program !== 'bash') {
      Object.assign(session.record, { state: 'failed_to_start', pid: null, started_at: null, error: 'there is no such program' })
      return void session.emit('change')
    }
    const { files } = w.agent
    const append = (path: string, text: string) =>
      void files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), Buffer.from(text)]))
    const stage = {
      stdout: (text: string) => session.write('stdout', text),
      stderr: (text: string) => session.write('stderr', text),
      append,
    }
    void play(script, { ...stage, cancelled: endOf(session) }).then((code) => (code < 0 ? undefined : session.exit(code)))
  }
})
after(() => w[Symbol.asyncDispose]())

sdkSuite('the service', () => ({ berth: w.calm, secret: w.world.a.key }), { terminals: false, forks: false, files: false })

test(
  'over connections that are cut anywhere, commands run once, their output is complete, and writes are there once',
  { timeout: patience(240_000) },
  async () => {
    const ran: string[] = []
    const before = w.play
    const bytes = randomBytes(500_000)
    w.play = (session) => {
      ran.push(String((session.request['argv'] as string[])[1]))
      for (let at = 0; at < bytes.length; at += 50_000) session.write('stdout', bytes.subarray(at, at + 50_000))
      session.exit(0)
    }
    const ws = await w.cut.open('cut', { template: 'base' })
    w.agent.files.delete('/home/user/log')
    for (const name of ['a', 'b', 'c', 'd']) {
      if (name === 'c') await (await w.calm.workspace(ws.id)).suspend()
      const { stdoutBytes } = await ws.exec(['write', name])
      assert.ok(bytes.equals(stdoutBytes))
      await ws.files.write('/home/user/log', name, { append: true })
    }
    assert.deepEqual(ran, ['a', 'b', 'c', 'd'])
    assert.equal(await ws.files.readText('/home/user/log'), 'abcd')
    assert.ok(w.cuts() > 5, `${w.cuts()} connections were cut`)
    w.play = before
  },
)

test('a call waits for the operation that blocks it, and is made again', async () => {
  const ws = await w.calm.open('busy', { template: 'base' })
  const [, forked] = await Promise.all([ws.suspend(), ws.snapshot({ label: 'both' })])
  assert.equal(forked.state, 'succeeded')
  assert.ok((await ws.checkpoints().all()).some(({ label }) => label === 'both'))
})

test("a key's resources are reached without naming the project", async () => {
  const secret = await w.calm.secrets.create({ name: 'TOKEN', value: 'a value' })
  assert.deepEqual((await w.calm.secrets.list().all()).map(({ name }) => name), ['TOKEN']) // prettier-ignore
  await w.calm.secrets.rotate(secret.id, 'another')
  await w.calm.secrets.delete(secret.id)
  const policy = await w.calm.egress.set({ mode: 'deny_all' })
  assert.equal((await w.calm.egress.get()).version, policy.version)
  assert.ok((await w.calm.templates.list().all()).some(({ slug }) => slug === 'base'))
  assert.equal((await w.calm.usage.summary()).organization_id, w.world.a.organization_id)
})

test('ports are exposed, and links made', async () => {
  const ws = await w.calm.open('ports', { template: 'base' })
  const { url } = await ws.ports.expose(8000)
  const link = await ws.ports.link(8000, { path: '/x' })
  assert.ok(link.url.startsWith(new URL(url).origin))
  await ws.ports.close(8000)
  assert.deepEqual(await ws.ports.list().all(), [])
})
