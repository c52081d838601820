import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startPorts, type Ports } from '../../service/cell/ports/ports.ts'
import { portProxy, type PortProxy } from '../support/port-proxy.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let ports: Ports
let proxy: PortProxy
const folder = mkdtempSync(join(tmpdir(), 'berth-looks-test-'))
before(async () => {
  w = await worldWithCell()
  ports = await startPorts(w.ports_deps, join(folder, 'socket'))
  proxy = await portProxy(join(folder, 'socket'))
})
after(async () => {
  proxy[Symbol.dispose]()
  await ports.close()
  await w[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

test('a proxy is told the listening addresses of a lease, and null when the machine cannot say or the lease is over', async () => {
  const id = await w.ready('listening')
  const path = `/v1/workspaces/${id}/ports/3000`
  await w.call('PUT', path)
  const { token } = (await w.post(`${path}/tokens`)).body
  const { grant } = await proxy.ask(id, 3000, 'token', token)
  assert.ok(grant)
  const { lease } = grant
  const looked = async (look_id: number, of: number) => {
    proxy.say({ look: { id: look_id, lease: of } })
    return (await proxy.heard('the answer to a look', ({ listeners }) => listeners?.id === look_id)).listeners?.addresses
  }
  const before = w.startup.listeners
  try {
    w.startup.listeners = (port) => Promise.resolve([`127.0.0.1`, `::${port}`])
    assert.deepEqual(await looked(1, lease), ['127.0.0.1', '::3000'])
    w.startup.listeners = () => Promise.reject(new Error('no answer'))
    assert.equal(await looked(2, lease), null)
    w.startup.listeners = () => Promise.resolve([])
    assert.deepEqual(await looked(3, lease), [])
    assert.equal(await looked(4, lease + 1000), null)
  } finally {
    w.startup.listeners = before
  }
})
