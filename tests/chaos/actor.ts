import type { Answer } from '../support/client.ts'
import type { Caller, Operation } from './caller.ts'
import type { History } from './history.ts'
import { between, boundsOf, copyOf, emptyContent, forgetMemory, type Believed, type Content, type Place } from './model.ts'
import type { Random } from './random.ts'

export interface Actor {
  name: string
  caller: Caller
  history: History
  random: Random
}

interface Opened {
  workspace: { id: string; ownership_epoch: number }
  operation: Operation | null
  cell_endpoint: string | null
  tool_token: { token: string } | null
}

const CAPS = { memory_mib: 512, disk_gib: 1 }
const FOLDERS: Record<Place, string> = { disk: '/home/user', memory: '/dev/shm' }
/** What clients do, and how often. */
const ACTIONS = { write: 40, read: 25, suspend: 5, wake: 12, snapshot: 5, restore: 4, reset: 2, fork: 4, remove: 2 }

const OPEN_MS = 60_000
const pause = () => new Promise((resolve) => setTimeout(resolve, 200)) // another client's operation may be at work

/** Opens the key until it runs. */
export async function open({ caller, history }: Actor, seen: Believed): Promise<boolean> {
  let last: unknown = null
  for (const deadline_ms = performance.now() + OPEN_MS; performance.now() < deadline_ms; await pause()) {
    const { status, body } = await caller.change<Opened>('/v1/workspaces/open', {
      json: { key: seen.key, template: 'base', caps: CAPS },
      headers: { prefer: 'wait=15' },
    })
    if (status === 200 && body.tool_token && body.cell_endpoint) {
      const { id, ownership_epoch } = body.workspace
      if (seen.id !== '' && seen.id !== id) history.violate('I9: a key names another workspace', { key: seen.key, was: seen.id, is: id })
      if (seen.id === id && ownership_epoch < seen.epoch)
        history.violate('I3: an epoch went back', { id, was: seen.epoch, is: ownership_epoch })
      Object.assign(seen, { id, epoch: ownership_epoch, token: body.tool_token.token, endpoint: body.cell_endpoint })
      return true
    }
    last = { status, body }
  }
  history.violate('I2: a workspace cannot be opened', { key: seen.key, last })
  return false
}

/** One thing after the other, until told to stop. */
export async function act(actor: Actor, workspaces: Believed[], stopped: () => boolean): Promise<void> {
  while (!stopped()) {
    const seen = actor.random.pick(workspaces)
    const action = actor.random.weighed(ACTIONS)
    await DO[action](actor, seen).catch((error: unknown) => {
      actor.history.note('given_up', { action, id: seen.id, error: String(error) })
    })
    await new Promise((resolve) => setTimeout(resolve, actor.random.between(20, 300)))
  }
}

const DO: Record<keyof typeof ACTIONS, (actor: Actor, seen: Believed) => Promise<void>> = {
  write: (actor, seen) => seen.lock.together(() => write(actor, seen)),
  read: (actor, seen) => seen.lock.together(() => read(actor, seen)),
  suspend: (actor, seen) => seen.lock.together(async () => void (await operate(actor, seen, 'suspend', {}))),
  wake: (actor, seen) => seen.lock.together(async () => void (await open(actor, seen))),
  snapshot: (actor, seen) => seen.lock.together(() => snapshot(actor, seen)),
  restore: (actor, seen) => seen.lock.alone(() => restore(actor, seen)),
  reset: (actor, seen) => seen.lock.alone(() => reset(actor, seen)),
  fork: (actor, seen) => seen.lock.together(() => fork(actor, seen)),
  remove: (actor, seen) => seen.lock.alone(() => remove(actor, seen)),
}

const urlOf = (seen: Believed, place: Place, name: string) =>
  `${seen.endpoint}/v1/workspaces/${seen.id}/files?path=${FOLDERS[place]}/${name}`

async function write(actor: Actor, seen: Believed): Promise<void> {
  const place = actor.random.pick<Place>(['disk', 'disk', 'memory'])
  const bounds = boundsOf(seen.content, place, actor.name)
  const { deaths } = seen
  const value = (bounds.ceiling += 1)
  const answer = await actor.caller.tool(urlOf(seen, place, actor.name), {
    method: 'PUT',
    token: seen.token,
    bytes: Buffer.from(String(value)),
  })
  if (answer?.status === 200) {
    if (place === 'disk' || deaths === seen.deaths) bounds.floor = Math.max(bounds.floor, value)
    actor.history.note('written', { id: seen.id, place, file: actor.name, value })
  } else await renew(actor, seen, answer)
}

async function read(actor: Actor, seen: Believed): Promise<void> {
  for (const place of ['disk', 'memory'] as const) await readOne(actor, seen, seen.content, place, actor.name)
}

async function readOne(actor: Actor, seen: Believed, content: Content, place: Place, name: string): Promise<void> {
  const bounds = boundsOf(content, place, name)
  const { floor } = bounds
  const { deaths } = seen
  const answer = await actor.caller.tool(urlOf(seen, place, name), { token: seen.token })
  if (answer?.status !== 200 && answer?.status !== 404) return renew(actor, seen, answer)
  if (answer.status === 404 && answer.body.error?.code !== 'not_found') return renew(actor, seen, answer)
  const value = answer.status === 404 ? 0 : Number(answer.bytes.toString())
  actor.history.count('read')
  if (place === 'memory' && deaths !== seen.deaths) return
  if (!(value >= floor && value <= bounds.ceiling))
    actor.history.violate(place === 'disk' ? 'N4: a file is not what was acknowledged' : 'N2: memory is not what was acknowledged', {
      id: seen.id,
      key: seen.key,
      name,
      value,
      floor,
      ceiling: bounds.ceiling,
    })
}

/** After a refusal that a new token or an open puts right. */
async function renew(actor: Actor, seen: Believed, answer: Answer<{ error?: { code: string } }> | null): Promise<void> {
  actor.history.count(`tool_${answer?.status ?? 'cut'}`)
  if (answer?.status === 500) actor.history.violate('an internal error', { id: seen.id, body: answer.body })
  if (answer !== null && [401, 403, 409].includes(answer.status) && actor.random.next() < 0.5) await open(actor, seen)
}

async function operate(actor: Actor, seen: Believed, verb: string, json: object): Promise<Operation | null> {
  const asked = await actor.caller.change<Operation & { operation?: Operation }>(`/v1/workspaces/${seen.id}/${verb}`, {
    method: 'POST',
    json,
  })
  if (asked.status !== 202 && asked.status !== 200) {
    actor.history.count(`${verb}_${asked.status}`)
    return null
  }
  const operation = await actor.caller.ended((asked.body.operation ?? asked.body).id)
  actor.history.note(`${verb}_${operation.state}`, { id: seen.id, operation: operation.id, code: operation.error?.code })
  return operation.state === 'succeeded' ? operation : null
}

async function snapshot(actor: Actor, seen: Believed): Promise<void> {
  const before = copyOf(seen.content)
  const { deaths } = seen
  const operation = await operate(actor, seen, 'snapshot', {})
  const checkpoint_id = operation?.result?.['checkpoint_id']
  if (typeof checkpoint_id !== 'string') return
  const captured = between(before, copyOf(seen.content))
  if (deaths !== seen.deaths) forgetMemory(captured)
  seen.snapshots.set(checkpoint_id, captured)
}

async function restore(actor: Actor, seen: Believed): Promise<void> {
  const [checkpoint_id, captured] = seen.snapshots.size === 0 ? [] : actor.random.pick([...seen.snapshots])
  if (checkpoint_id === undefined || captured === undefined) return
  if ((await operate(actor, seen, 'restore', { checkpoint_id })) === null) return
  const { deaths } = seen
  seen.content = copyOf(captured)
  if (!(await open(actor, seen))) return
  if (deaths !== seen.deaths) forgetMemory(seen.content)
  for (const place of ['disk', 'memory'] as const)
    for (const name of seen.content[place].keys()) await readOne(actor, seen, seen.content, place, name)
}

async function reset(actor: Actor, seen: Believed): Promise<void> {
  const before = copyOf(seen.content)
  const { deaths } = seen
  const operation = await operate(actor, seen, 'reset', { confirm_destructive: true })
  if (operation === null) return
  seen.content = emptyContent()
  const recovery = operation.result?.['recovery_checkpoint_id']
  if (typeof recovery === 'string') {
    if (deaths !== seen.deaths) forgetMemory(before)
    seen.snapshots.set(recovery, before)
  }
  if (await open(actor, seen)) await readOne(actor, seen, seen.content, 'disk', actor.name)
}

async function fork(actor: Actor, seen: Believed): Promise<void> {
  const before = copyOf(seen.content)
  const { deaths } = seen
  const key = `${seen.key}-fork-${actor.name}-${Math.floor(actor.random.next() * 1e9)}`
  const operation = await operate(actor, seen, 'fork', { key })
  if (operation === null) return
  const child: Believed = {
    ...seen,
    key,
    id: operation.workspace_id,
    epoch: 0,
    content: between(before, copyOf(seen.content)),
    snapshots: new Map(),
  }
  if (deaths !== seen.deaths) forgetMemory(child.content)
  if (await open(actor, child))
    for (const place of ['disk', 'memory'] as const)
      for (const name of child.content[place].keys()) await readOne(actor, child, child.content, place, name)
  await end(actor, child)
}

async function remove(actor: Actor, seen: Believed): Promise<void> {
  if (!(await end(actor, seen))) return
  const generation = Number(seen.key.split('.')[1] ?? 0) + 1
  Object.assign(seen, { key: `${seen.key.split('.')[0]}.${generation}`, id: '', epoch: 0, content: emptyContent(), snapshots: new Map() })
  await open(actor, seen)
}

/** Deletes; from the answer on nothing may be called (N7). */
async function end(actor: Actor, seen: Believed): Promise<boolean> {
  const answer = await actor.caller.change<Operation>(`/v1/workspaces/${seen.id}`, { method: 'DELETE' })
  if (answer.status !== 202) {
    actor.history.count(`delete_${answer.status}`)
    return false
  }
  const answered_ms = performance.now()
  const called = await actor.caller.tool(urlOf(seen, 'disk', actor.name), { token: seen.token })
  if (called?.status === 200)
    actor.history.violate('N7: a deleted workspace was read', { id: seen.id, after_ms: Math.round(performance.now() - answered_ms) })
  const { state } = await actor.caller.ended(answer.body.id)
  if (state !== 'succeeded') actor.history.violate('I15: a delete failed', { id: seen.id, state })
  actor.history.note('deleted', { id: seen.id })
  return true
}
