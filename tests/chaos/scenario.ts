import assert from 'node:assert/strict'
import { createClient } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { open, type Actor } from './actor.ts'
import type { Operation } from './caller.ts'
import { emptyContent, Lock, type Believed } from './model.ts'
import type { Kind } from './points.ts'

const FILES = { disk: '/home/user/kept', memory: '/dev/shm/kept' }
let count = 0

/** A workspace in the state from which the operation is asked for. */
export async function prepare(service: Service, actor: Actor, kind: Kind): Promise<Believed> {
  const key = `case-${process.pid}-${count++}`
  const seen: Believed = {
    key,
    id: '',
    endpoint: '',
    token: '',
    epoch: 0,
    content: emptyContent(),
    snapshots: new Map(),
    deaths: 0,
    lock: new Lock(),
  }
  if (kind === 'open') return seen
  await open(actor, seen)
  await settled(actor, seen)
  for (const path of Object.values(FILES)) {
    const { status } = await createClient(service.base_url, service.api_key).tool({ ...seen, operation_id: null }, `/files?path=${path}`, {
      method: 'PUT',
      bytes: Buffer.from('kept'),
    })
    assert.equal(status, 200, `could not write ${path}`)
  }
  if (kind === 'resume' || kind === 'fork_suspended') assert.equal((await run(actor, seen, 'suspend')).state, 'succeeded')
  if (kind === 'restore') {
    const { result } = await run(actor, seen, 'snapshot')
    seen.snapshots.set(String(result?.['checkpoint_id']), seen.content)
  }
  return seen
}

const BODIES: Partial<Record<Kind, (seen: Believed) => object>> = {
  restore: (seen) => ({ checkpoint_id: [...seen.snapshots.keys()][0] }),
  reset: () => ({ confirm_destructive: true }),
  fork: (seen) => ({ key: `${seen.key}-fork` }),
  fork_suspended: (seen) => ({ key: `${seen.key}-fork` }),
}

/** Asks for the operation and waits for its end. */
export async function run(actor: Actor, seen: Believed, kind: Kind): Promise<Operation> {
  const { caller } = actor
  type Body = Operation & { operation?: Operation | null; workspace?: { id: string } }
  const asked =
    kind === 'open'
      ? await caller.change<Body>('/v1/workspaces/open', {
          json: { key: seen.key, template: 'base', caps: { memory_mib: 512, disk_gib: 1 } },
        })
      : await caller.change<Body>(`/v1/workspaces/${seen.id}${kind === 'delete' ? '' : `/${kind.replace('_suspended', '')}`}`, {
          method: kind === 'delete' ? 'DELETE' : 'POST',
          ...(kind === 'delete' ? {} : { json: BODIES[kind]?.(seen) ?? {} }),
        })
  assert.ok(asked.status === 202 || asked.status === 200, `${kind} answered ${asked.status} ${JSON.stringify(asked.body)}`)
  const operation = asked.body.operation ?? asked.body
  return caller.ended(operation.id)
}

/** What must hold whatever happened: before or after, whole, and the content is the one that the outcome says. */
export async function verify(service: Service, actor: Actor, seen: Believed, kind: Kind, operation: Operation): Promise<void> {
  if (kind === 'delete') {
    assert.equal(operation.state, 'succeeded')
    const inventory = await service.inventory()
    assert.deepEqual(
      [...inventory.machines, ...inventory.workspaces].filter(({ workspace_id }) => workspace_id === seen.id),
      [],
    )
    return
  }
  if (kind === 'open') seen.id = operation.workspace_id
  if (kind === 'fork' || kind === 'fork_suspended') await verifyFork(service, actor, seen, operation)
  assert.ok(await open(actor, seen), 'it does not open')
  await settled(actor, seen)
  const expected = kind === 'open' ? null : kind === 'reset' && operation.state === 'succeeded' ? null : 'kept'
  assert.deepEqual(await read(service, seen), { disk: expected, memory: expected })
  const { machines } = await service.inventory()
  assert.equal(machines.filter(({ workspace_id }) => workspace_id === seen.id).length, 1)
  await run(actor, seen, 'delete')
}

async function verifyFork(service: Service, actor: Actor, seen: Believed, operation: Operation): Promise<void> {
  const { status, body } = await actor.caller.api<{ observed_state: string }>(`/v1/workspaces/${operation.workspace_id}`)
  if (status === 404 || body.observed_state === 'deleted') {
    assert.equal(operation.state, 'failed')
    return
  }
  const child: Believed = { ...seen, key: `${seen.key}-fork`, id: operation.workspace_id, epoch: 0 }
  assert.ok(await open(actor, child), 'the fork does not open')
  assert.deepEqual(await read(service, child), { disk: 'kept', memory: 'kept' })
  await run(actor, child, 'delete')
}

/** No operation is at work any more: the token of an open can be older than the end of its operation. */
async function settled(actor: Actor, seen: Believed): Promise<void> {
  const { body } = await actor.caller.api<{ active_operation: { id: string } | null }>(`/v1/workspaces/${seen.id}`)
  if (body.active_operation !== null) await actor.caller.ended(body.active_operation.id)
}

async function read(service: Service, seen: Believed): Promise<Record<string, string | null>> {
  const client = createClient(service.base_url, service.api_key)
  const content: Record<string, string | null> = {}
  for (const [place, path] of Object.entries(FILES)) {
    const answer = await client.tool({ ...seen, operation_id: null }, `/files?path=${path}`)
    assert.ok(answer.status === 200 || answer.status === 404, `${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    content[place] = answer.status === 404 ? null : answer.bytes.toString()
  }
  return content
}
