import type { Answer } from '../support/client.ts'
import type { Caller, Operation } from './caller.ts'
import type { History } from './history.ts'
import type { Believed, StorageKind } from './model.ts'
import type { Random } from './random.ts'
import { patience } from '../support/patience.ts'

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
const OPEN_MS = 60_000
export const pause = () => new Promise((resolve) => setTimeout(resolve, 200)) // another client's operation may be running

const FOLDERS: Record<StorageKind, string> = { disk: '/home/user', memory: '/dev/shm' }
export const urlOf = (seen: Believed, place: StorageKind, name: string) =>
  `${seen.endpoint}/v1/workspaces/${seen.id}/files?path=${FOLDERS[place]}/${name}`

export async function open({ caller, history }: Actor, seen: Believed): Promise<boolean> {
  let last: unknown = null
  for (const deadline_ms = performance.now() + patience(OPEN_MS); performance.now() < deadline_ms; await pause()) {
    const { epoch } = seen // another client may see a later epoch before this answer is read
    const { status, body } = await caller.change<Opened>('/v1/workspaces/open', {
      json: { key: seen.key, template: 'base', caps: CAPS },
      headers: { prefer: 'wait=15' },
    })
    if (status === 200 && body.tool_token && body.cell_endpoint) {
      const { id, ownership_epoch } = body.workspace
      if (seen.id !== '' && seen.id !== id) history.violate('I9: a key names another workspace', { key: seen.key, was: seen.id, is: id })
      if (seen.id === id && ownership_epoch < epoch) history.violate('I3: an epoch went back', { id, was: epoch, is: ownership_epoch })
      const stale = seen.id === id && ownership_epoch > seen.epoch ? seen.token : ''
      Object.assign(seen, { id, epoch: ownership_epoch, token: body.tool_token.token, endpoint: body.cell_endpoint })
      if (stale !== '') await refused(caller, history, seen, stale)
      return true
    }
    last = { status, body }
  }
  history.violate('I2: a workspace cannot be opened', { key: seen.key, last })
  return false
}

/** Checks I3: a token of an old epoch is refused. */
async function refused(caller: Caller, history: History, seen: Believed, token: string): Promise<void> {
  const answer = await caller.tool(urlOf(seen, 'disk', 'anything'), { token })
  const refusal = answer === null || answer.status === 409 || answer.status === 401 || answer.status >= 500
  if (!refusal) history.violate('I3: a token of an old epoch was served', { id: seen.id, status: answer.status, body: answer.body })
  history.count(`stale_token_${answer?.status ?? 'cut'}`)
}

export async function renew(actor: Actor, seen: Believed, answer: Answer<{ error?: { code: string } }> | null): Promise<void> {
  actor.history.count(`tool_${answer?.status ?? 'cut'}`)
  if (answer?.status === 500) actor.history.violate('an internal error', { id: seen.id, body: answer.body })
  if (answer !== null && [401, 403, 409].includes(answer.status) && actor.random.next() < 0.5) await open(actor, seen)
}
