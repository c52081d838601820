import assert from 'node:assert/strict'
import { createClient, type Answer } from '../support/client.ts'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import { assertContinues, startWitness } from '../support/witness.ts'
import { open, type Actor } from './open.ts'
import type { Case } from './watched.ts'
import type { Believed } from './model.ts'
import type { Parking } from './points.ts'
import { patience } from '../support/patience.ts'

export const PARK_SOON = { freeze_after_seconds: 1, hibernate_after_seconds: 2 }

const PARKED_MS = 120_000
const ACKNOWLEDGED_MS = 120_000
/** Longer than a wake, shorter than a zombie's longest stop. */
const ANSWER_MS = 20_000
const FILES = ['/home/user/kept', '/dev/shm/kept']

interface Refused {
  error?: { code: string; retryable?: boolean; details?: { reason?: string } }
}

/** The workspace's state and epoch must not change. */
export async function prepareParking(service: Service, actor: Actor, seen: Believed, kind: Parking): Promise<Case> {
  const client = createClient(service.base_url, service.api_key)
  const at = () => ({ ...seen, operation_id: null })
  const machines = async () => (await service.inventory()).machines.filter(({ subject }) => subject.id === seen.id)
  const stateOf = async () =>
    (await actor.caller.api<{ observed_state: string; ownership_epoch: number }>(`/v1/workspaces/${seen.id}`)).body
  assert.ok(await open(actor, seen), 'it does not open')
  const refused: string[] = []
  await write(actor, seen, 'before', refused)
  const witness = await startWitness(client, at())
  const { ownership_epoch } = await stateOf()
  if (kind === 'wake') await until('it is hibernated', PARKED_MS, async () => (await machines()).length === 0)
  return {
    async run({ fired, taken_over }) {
      // Makes no request until the point is reached, because it would prevent the hibernation.
      if (kind === 'hibernate') await until('it is about to be hibernated', PARKED_MS, fired)
      await write(actor, seen, 'after', refused, taken_over)
      return ['written', ...new Set(refused)].join(', ')
    },
    async verify() {
      assert.ok(await open(actor, seen), 'it does not open')
      for (const path of FILES) assert.equal((await client.tool(at(), `/files?path=${path}`)).bytes.toString(), 'after', path)
      await assertContinues(client, at(), witness)
      const { observed_state, ...now } = await stateOf()
      assert.deepEqual([observed_state, now.ownership_epoch], ['running', ownership_epoch])
      assert.equal((await machines()).length, 1)
      const { status, body } = await actor.caller.api<{ id: string }>(`/v1/workspaces/${seen.id}`, { method: 'DELETE' })
      assert.equal(status, 202)
      assert.equal((await actor.caller.ended(body.id)).state, 'succeeded')
    },
  }
}

/** Writes until acknowledged. Refusals before that must be marked retryable. */
async function write(actor: Actor, seen: Believed, text: string, refused: string[], taken_over?: AbortSignal): Promise<void> {
  for (const path of FILES) {
    const deadline_ms = performance.now() + patience(ACKNOWLEDGED_MS)
    while (!(await writeOnce(actor, seen, path, text, refused, taken_over))) {
      assert.ok(performance.now() < deadline_ms, `a write was never acknowledged: ${refused.join(', ')}`)
      await new Promise((resolve) => setTimeout(resolve, 100))
      await open(actor, seen) // another process may serve its tools now
    }
  }
}

async function writeOnce(
  actor: Actor,
  seen: Believed,
  path: string,
  text: string,
  refused: string[],
  taken_over?: AbortSignal,
): Promise<boolean> {
  const late = AbortSignal.timeout(ANSWER_MS)
  const answer: Answer<Refused> | null = await actor.caller.tool(`${seen.endpoint}/v1/workspaces/${seen.id}/files?path=${path}`, {
    method: 'PUT',
    token: seen.token,
    bytes: Buffer.from(text),
    signal: taken_over?.aborted === false ? AbortSignal.any([late, taken_over]) : late,
  })
  if (answer?.status === 200) return true
  const { code, retryable, details } = answer?.body.error ?? { code: 'cut', retryable: true }
  refused.push(details?.reason ?? code)
  // 401 is allowed: a token names its serving cell, and the next open returns one for the current cell.
  if (retryable !== true && answer?.status !== 401) actor.history.violate('a call was refused for good', { path, body: answer?.body })
  return false
}
