import { setTimeout } from 'node:timers/promises'
import type { StartupReason } from '../../../contract/errors.ts'
import type { ExecSession } from '../../../contract/schemas/cell/session.ts'
import type { StartupState } from '../../db/column-types.ts'
import { Failure } from '../../lib/fail.ts'
import { commandSession, readySession, serviceSession, type Step, type StepSession } from './startup-steps.ts'

export type Failed = Extract<StartupState, { state: 'failed' }>

/** Every call may be repeated: a session is started once. */
export interface StartupGuest {
  start(session: StepSession): Promise<ExecSession>
  look(session_id: string): Promise<ExecSession>
  cancel(session_id: string): Promise<void>
  tail(session: ExecSession): Promise<string>
  signal: AbortSignal
}

export class NoSecrets extends Error {
  readonly reason: 'secrets_unavailable' | 'secret_not_available'
  constructor(reason: NoSecrets['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/** Added to the timeout of a step, because the agent may fail to end the step. */
const LATE_MS = 60_000
const LOOK_MS_MIN = 10
const LOOK_MS_MAX = 500
const READY_LOOK_MS = 200

/**
 * @param owner_id part of the session ids: a repeated call finds its sessions
 * @returns null: the command has ended, or the service is ready
 */
export async function runStep(guest: StartupGuest, step: Step, owner_id: string): Promise<Failed | null> {
  try {
    return step.kind === 'command' ? await runCommand(guest, step, owner_id) : await runService(guest, step, owner_id)
  } catch (error) {
    const { name } = step.run
    if (error instanceof NoSecrets) return failure(name, error.reason, null, error.message)
    if (error instanceof Failure) return failure(name, 'startup_failed', null, error.message) // the guest refused the session: no disk, too many sessions
    throw error
  }
}

function failure(step: string, reason: StartupReason, exit_code: number | null, output_tail: string): Failed {
  return { state: 'failed', step, reason, exit_code, output_tail }
}

async function runCommand(
  guest: StartupGuest,
  { run, needs }: Extract<Step, { kind: 'command' }>,
  owner_id: string,
): Promise<Failed | null> {
  const session = commandSession(run, owner_id, needs)
  await guest.start(session)
  const ended = await endOf(guest, session.session_id, (session.timeout_ms ?? 0) + LATE_MS)
  if (ended?.state === 'exited' && ended.exit_code === 0 && !ended.timed_out) return null
  return failureOf(guest, run.name, 'startup_failed', ended ?? (await guest.look(session.session_id)))
}

async function runService(
  guest: StartupGuest,
  { run, needs }: Extract<Step, { kind: 'service' }>,
  owner_id: string,
): Promise<Failed | null> {
  const { session_id } = await guest.start(serviceSession(run, owner_id, needs))
  const ready = readySession(run, owner_id)
  const is_ready = ready === null ? await runs(guest, session_id) : await becomesReady(guest, session_id, ready)
  if (is_ready) return null
  const service = await guest.look(session_id)
  const failed = await failureOf(guest, run.name, service.state === 'running' ? 'service_not_ready' : 'startup_failed', service)
  if (service.state === 'running') await guest.cancel(session_id) // the running service would conflict with the next one that is started
  return failed
}

async function runs(guest: StartupGuest, session_id: string): Promise<boolean> {
  const { state, exit_code } = await guest.look(session_id)
  return state === 'running' || (state === 'exited' && exit_code === 0)
}

async function becomesReady(guest: StartupGuest, service_id: string, ready: StepSession): Promise<boolean> {
  const { session_id } = await guest.start(ready)
  const until_ms = performance.now() + (ready.timeout_ms ?? 0) + LATE_MS
  while (performance.now() < until_ms) {
    const asked = await endOf(guest, session_id, READY_LOOK_MS)
    if (asked !== null) return asked.state === 'exited' && asked.exit_code === 0 && !asked.timed_out
    if ((await guest.look(service_id)).state !== 'running') {
      await guest.cancel(session_id)
      return false
    }
    await setTimeout(READY_LOOK_MS, undefined, { signal: guest.signal })
  }
  return false
}

/** @returns null if the command still runs after the limit */
async function endOf(guest: StartupGuest, session_id: string, limit_ms: number): Promise<ExecSession | null> {
  const until_ms = performance.now() + limit_ms
  for (let wait_ms = LOOK_MS_MIN; ; wait_ms = Math.min(wait_ms * 2, LOOK_MS_MAX)) {
    const session = await guest.look(session_id)
    if (session.state !== 'running') return session
    if (performance.now() > until_ms) return null
    await setTimeout(wait_ms, undefined, { signal: guest.signal })
  }
}

async function failureOf(guest: StartupGuest, step: string, reason: StartupReason, session: ExecSession): Promise<Failed> {
  const tail = session.state === 'failed_to_start' ? (session.error ?? '') : await guest.tail(session)
  return failure(step, reason, session.timed_out ? null : session.exit_code, tail)
}
