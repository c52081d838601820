import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createClient } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { open, type Actor } from './open.ts'
import type { Operation } from './caller.ts'
import type { Case } from './watched.ts'
import { emptyContent, Lock, type Believed } from './model.ts'
import { prepareParking } from './parking.ts'
import { isParking, type Kind, type Parking } from './points.ts'

type OperationKind = Exclude<Kind, Parking>

const FILES = { disk: '/home/user/kept', memory: '/dev/shm/kept' }
let count = 0

export async function prepare(service: Service, actor: Actor, kind: Kind): Promise<Case> {
  const seen = believed()
  if (isParking(kind)) return prepareParking(service, actor, seen, kind)
  await bringTo(service, actor, seen, kind)
  let operation: Operation | null = null
  let late: Promise<void> = Promise.resolve()
  return {
    async run({ elsewhere }) {
      const ask = asking(seen, kind)
      const first = ask(actor).then((id) => ({ id, by: actor }))
      const second = elsewhere.then(async (other) => ({ id: await ask(other), by: other }))
      const answered = await Promise.race([first, second])
      late = first.then(({ id }) => sameOperation(actor, answered.id, id))
      late.catch(() => undefined) // verify() awaits it
      operation = await answered.by.caller.ended(answered.id)
      return operation.state
    },
    async verify() {
      await late
      assert.ok(operation)
      await verify(service, actor, seen, kind, operation)
    },
  }
}

function believed(): Believed {
  const key = `case-${process.pid}-${count++}`
  return { key, id: '', endpoint: '', token: '', epoch: 0, content: emptyContent(), snapshots: new Map(), deaths: 0, lock: new Lock() }
}

async function bringTo(service: Service, actor: Actor, seen: Believed, kind: OperationKind): Promise<void> {
  if (kind === 'open') return
  await open(actor, seen)
  await settled(actor, seen)
  for (const path of Object.values(FILES)) {
    const { status } = await createClient(service.base_url, service.api_key).tool({ ...seen, operation_id: null }, `/files?path=${path}`, {
      method: 'PUT',
      bytes: Buffer.from('kept'),
    })
    assert.equal(status, 200, `could not write ${path}`)
  }
  if (kind === 'resume' || kind === 'fork_suspended') assert.equal((await operate(actor, seen, 'suspend')).state, 'succeeded')
  if (kind === 'adopt') forks.set(seen, (await operate(actor, seen, 'fork')).workspace_id)
  if (kind === 'restore') {
    const { result } = await operate(actor, seen, 'snapshot')
    seen.snapshots.set(String(result?.['checkpoint_id']), seen.content)
  }
}

const forks = new WeakMap<Believed, string>()

const BODIES: Partial<Record<OperationKind, (seen: Believed) => object>> = {
  restore: (seen) => ({ checkpoint_id: [...seen.snapshots.keys()][0] }),
  reset: () => ({ confirm_destructive: true }),
  adopt: (seen) => ({ fork_workspace_id: forks.get(seen), delete_fork: true }),
  fork: (seen) => ({ key: `${seen.key}-fork` }),
  fork_suspended: (seen) => ({ key: `${seen.key}-fork` }),
}

async function operate(actor: Actor, seen: Believed, kind: OperationKind): Promise<Operation> {
  return actor.caller.ended(await asking(seen, kind)(actor))
}

function asking(seen: Believed, kind: OperationKind): (actor: Actor) => Promise<string> {
  type Body = Operation & { operation?: Operation | null }
  const headers = { 'idempotency-key': randomUUID() }
  const path =
    kind === 'open' ? '/v1/workspaces/open' : `/v1/workspaces/${seen.id}${kind === 'delete' ? '' : `/${kind.replace('_suspended', '')}`}`
  const caps = { memory_mib: 512, disk_gib: 1 }
  const json = kind === 'open' ? { key: seen.key, template: 'base', caps } : (BODIES[kind]?.(seen) ?? {})
  const options = kind === 'delete' ? { method: 'DELETE', headers } : { method: 'POST', headers, json }
  const ask = async (actor: Actor) => {
    const { status, body } = await actor.caller.api<Body>(path, options)
    assert.ok(status === 202 || status === 200, `${kind} answered ${status} ${JSON.stringify(body)}`)
    return (body.operation ?? body).id
  }
  return async (actor) => {
    const id = await ask(actor)
    sameOperation(actor, id, await ask(actor))
    return id
  }
}

function sameOperation(actor: Actor, first: string, repeat: string): void {
  if (first !== repeat) actor.history.violate('I8: a repeat named another operation', { first, repeat })
}

async function verify(service: Service, actor: Actor, seen: Believed, kind: OperationKind, operation: Operation): Promise<void> {
  if (kind === 'delete') {
    assert.equal(operation.state, 'succeeded')
    const inventory = await service.inventory()
    assert.deepEqual(
      [...inventory.machines, ...inventory.files].filter(({ subject }) => subject.id === seen.id),
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
  assert.equal(machines.filter(({ subject }) => subject.id === seen.id).length, 1)
  await operate(actor, seen, 'delete')
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
  await operate(actor, child, 'delete')
}

/** An open may return its token before its operation ends. */
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
