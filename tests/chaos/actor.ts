import type { Operation } from './caller.ts'
import { runOnce } from './command.ts'
import {
  between,
  boundsOf,
  copyOf,
  emptyContent,
  forgetMemory,
  newBelieved,
  wokenAt,
  type Believed,
  type Content,
  type StorageKind,
} from './model.ts'
import { open, pause, renew, urlOf, type Actor } from './open.ts'
import { startWitness, testify } from './witness.ts'

const ACTIONS = {
  write: 40,
  read: 25,
  suspend: 5,
  wake: 12,
  snapshot: 5,
  restore: 4,
  reset: 2,
  fork: 4,
  remove: 2,
  witness: 8,
  run: 8,
  hint: 1,
}
const QUIET = { share: 0.06, seconds: [2, 12] } as const
/** Files listed near the end of a quiet time are read from the disk, which must not wake the machine. */
const PEEK = { share: 0.1, last_ms: 1500 }

export async function act(actor: Actor, workspaces: Believed[], stopped: () => boolean): Promise<void> {
  while (!stopped()) {
    const next = chosen(actor, workspaces)
    if (next === null) {
      await pause()
      continue
    }
    const { seen, action } = next
    await DO[action](actor, seen).catch((error: unknown) => {
      actor.history.note('given_up', { action, id: seen.id, error: String(error) })
    })
    if (action !== 'peek' && actor.random.next() < QUIET.share)
      seen.quiet_until_ms = performance.now() + actor.random.between(...QUIET.seconds) * 1000
    await new Promise((resolve) => setTimeout(resolve, actor.random.between(20, 300)))
  }
}

function chosen({ random }: Actor, workspaces: Believed[]): { seen: Believed; action: keyof typeof DO } | null {
  const left_ms = ({ quiet_until_ms = 0 }: Believed) => quiet_until_ms - performance.now()
  const dozing = workspaces.filter((seen) => left_ms(seen) > 0 && left_ms(seen) < PEEK.last_ms)
  if (dozing.length > 0 && random.next() < PEEK.share) return { seen: random.pick(dozing), action: 'peek' }
  const awake = workspaces.filter((seen) => left_ms(seen) <= 0)
  return awake.length === 0 ? null : { seen: random.pick(awake), action: random.weighed(ACTIONS) }
}

const DO: Record<keyof typeof ACTIONS | 'peek', (actor: Actor, seen: Believed) => Promise<void>> = {
  write: (actor, seen) => seen.lock.together(() => write(actor, seen)),
  read: (actor, seen) => seen.lock.together(() => read(actor, seen)),
  suspend: (actor, seen) => seen.lock.together(() => suspend(actor, seen)),
  wake: (actor, seen) => seen.lock.together(async () => void (await open(actor, seen))),
  snapshot: (actor, seen) => seen.lock.together(() => snapshot(actor, seen)),
  restore: (actor, seen) => seen.lock.alone(() => restore(actor, seen)),
  reset: (actor, seen) => seen.lock.alone(() => reset(actor, seen)),
  fork: (actor, seen) => seen.lock.together(() => fork(actor, seen)),
  remove: (actor, seen) => seen.lock.alone(() => remove(actor, seen)),
  witness: (actor, seen) =>
    seen.content.witness === null ? seen.lock.alone(() => startWitness(actor, seen)) : seen.lock.together(() => testify(actor, seen)),
  run: (actor, seen) => seen.lock.together(() => run(actor, seen)),
  hint: (actor, seen) => seen.lock.together(() => hint(actor, seen)),
  peek: (actor, seen) => seen.lock.together(() => peek(actor, seen)),
}

async function write(actor: Actor, seen: Believed): Promise<void> {
  const place = actor.random.pick<StorageKind>(['disk', 'disk', 'memory'])
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

async function peek(actor: Actor, seen: Believed): Promise<void> {
  const names = [...seen.content.disk.keys()]
  if (names.length > 0) await readOne(actor, seen, seen.content, 'disk', actor.random.pick(names))
}

async function readOne(
  actor: Actor,
  seen: Believed,
  content: Content,
  place: StorageKind,
  name: string,
  token = seen.token,
): Promise<void> {
  const bounds = boundsOf(content, place, name)
  const { floor } = bounds
  const { deaths } = seen
  const answer = await actor.caller.tool(urlOf(seen, place, name), { token })
  if (answer?.status !== 200 && answer?.status !== 404) return renew(actor, seen, answer)
  if (answer.status === 404 && answer.body.error?.code !== 'not_found') return renew(actor, seen, answer)
  const value = answer.status === 404 ? 0 : Number(answer.bytes.toString())
  actor.history.count(answer.headers['x-served-from'] === 'disk' ? 'read_from_disk' : 'read')
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

/** After the suspend, files are read from the disk with a token of the new epoch. */
async function suspend(actor: Actor, seen: Believed): Promise<void> {
  if ((await operate(actor, seen, 'suspend', {})) === null) return
  const minted = await actor.caller.api<{ token: string }>(`/v1/workspaces/${seen.id}/tool-tokens`, { json: {} })
  if (minted.status !== 201) return actor.history.count(`token_${minted.status}`) // another client wakes it
  for (const name of seen.content.disk.keys()) await readOne(actor, seen, seen.content, 'disk', name, minted.body.token)
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
  const asked_ms = performance.now()
  if ((await operate(actor, seen, 'restore', { checkpoint_id })) === null) return
  const { deaths } = seen
  seen.content = wokenAt(captured, asked_ms)
  if (!(await open(actor, seen))) return
  if (deaths !== seen.deaths) forgetMemory(seen.content)
  await readAll(actor, seen)
}

export async function readAll(actor: Actor, seen: Believed): Promise<void> {
  for (const place of ['disk', 'memory'] as const)
    for (const name of seen.content[place].keys()) await readOne(actor, seen, seen.content, place, name)
  await testify(actor, seen)
}

/** Checks I8 and N6: a command runs exactly once despite failures, and its output stays the same. */
async function run(actor: Actor, seen: Believed): Promise<void> {
  const { deaths } = seen
  const ran = await runOnce(actor, seen, (session_id) => ['bash', '-c', 'echo "$0" >>/home/user/ran; seq 3000', session_id])
  if (ran === null || deaths !== seen.deaths) return
  const { session_id, stdout, exit_code } = ran
  const expected = Array.from({ length: 3000 }, (_, index) => `${index + 1}\n`).join('')
  if (exit_code !== 0 || stdout !== expected)
    actor.history.violate('N6: a command printed something else', { id: seen.id, session_id, exit_code, printed: stdout.length })
  const answer = await actor.caller.tool(urlOf(seen, 'disk', 'ran'), { token: seen.token })
  if (answer?.status !== 200 || deaths !== seen.deaths) return
  const times = answer.bytes.toString().split('\n').filter((line) => line === session_id).length // prettier-ignore
  if (times !== 1) actor.history.violate('I8: a command did not run once', { id: seen.id, session_id, times })
  actor.history.count('ran')
}

async function hint(actor: Actor, seen: Believed): Promise<void> {
  const answer = await actor.caller.tool(`${seen.endpoint}/v1/workspaces/${seen.id}/wake-hint`, { token: seen.token, json: {} })
  if (answer?.status === 202) actor.history.count(`hint_${String((answer.body as { residency?: string }).residency)}`)
  else await renew(actor, seen, answer)
}

async function reset(actor: Actor, seen: Believed): Promise<void> {
  const before = copyOf(seen.content)
  const { deaths } = seen
  const operation = await operate(actor, seen, 'reset', { confirm_destructive: true })
  if (operation === null) return
  const captured = between(before, seen.content)
  seen.content = emptyContent()
  const recovery = operation.result?.['recovery_checkpoint_id']
  if (typeof recovery === 'string') {
    if (deaths !== seen.deaths) forgetMemory(captured)
    seen.snapshots.set(recovery, captured)
  }
  if (await open(actor, seen)) await readOne(actor, seen, seen.content, 'disk', actor.name)
}

async function fork(actor: Actor, seen: Believed): Promise<void> {
  const before = copyOf(seen.content)
  const { deaths } = seen
  const key = `${seen.key}-fork-${actor.name}-${Math.floor(actor.random.next() * 1e9)}`
  const operation = await operate(actor, seen, 'fork', { key })
  if (operation === null) return
  const content = between(before, copyOf(seen.content))
  const child: Believed = { ...newBelieved(key), id: operation.workspace_id, deaths: seen.deaths, content }
  if (deaths !== seen.deaths) forgetMemory(child.content)
  if (await open(actor, child)) await readAll(actor, child)
  await end(actor, child)
}

async function remove(actor: Actor, seen: Believed): Promise<void> {
  if (!(await end(actor, seen))) return
  const generation = Number(seen.key.split('.')[1] ?? 0) + 1
  Object.assign(seen, { key: `${seen.key.split('.')[0]}.${generation}`, id: '', epoch: 0, content: emptyContent(), snapshots: new Map() })
  await open(actor, seen)
}

/** Checks N7: after the answer no call may succeed. */
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
