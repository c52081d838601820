import { setTimeout } from 'node:timers/promises'
import type { ExecSession } from '../../../contract/schemas/cell/session.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { Failure } from '../../lib/fail.ts'
import { environmentWith } from '../gateway/environment.ts'
import type { GivenVariables } from '../gateway/secret-variables.ts'
import type { AgentLink } from '../host/agent-link.ts'
import type { CallBounds } from '../host/agent-answer.ts'
import { AgentFailure } from '../host/agent-failure.ts'
import { UNLIMITED_BUDGET } from '../host/buffer-budget.ts'
import { createFrameReader } from '../host/output-frames.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { TRUST_VARIABLES } from '../policies/secrets/trust.ts'
import type { Job } from './job.ts'
import { NoSecrets, type StartupGuest } from './startup-run.ts'
import type { StepSession } from './startup-steps.ts'
import type { MachineRow } from '../machines/machine-row-store.ts'

/** The machine ended, or no longer belongs to this operation. */
export class MachineEnded extends Error {
  constructor() {
    super('The machine ended while it started up')
  }
}

const LOOK_MS_MAX = 500
/** Failed calls are repeated for this time. Afterwards, the agent's liveness probe would have ended the machine. */
const TROUBLE_MS_MAX = 60_000

/** Each call looks up the machine again, because it may hibernate between calls. */
export function guestOf(job: Job, row: MachineRow): StartupGuest {
  return {
    start: (session) => startSession(job, row, session),
    look: (session_id) => patiently(job, row, (link, bounds) => link.getExec(session_id, bounds)),
    cancel: (session_id) => patiently(job, row, async (link, bounds) => void (await link.cancelExec(session_id, bounds))),
    tail: (session) => shown(patiently(job, row, (link, bounds) => readTail(link, session, bounds))),
    signal: job.signal,
  }
}

/** Returns the session of an earlier attempt unchanged, if there is one. */
async function startSession(job: Job, row: MachineRow, { asked_env, needs, ...session }: StepSession): Promise<ExecSession> {
  const entry = await entryOf(job, row)
  const { values, authority } = await job.cell.secrets.valuesFor(entry, 'exec', []).catch(refuseSecrets)
  const missing = needs.filter((name) => !Object.hasOwn(values, name))
  if (missing.length > 0) throw new NoSecrets('secret_not_available', `The workspace may not use these secrets: ${missing.join(', ')}`)
  return patiently(job, row, async (link, bounds, machine) => {
    const is_trusted = authority !== null && (await job.cell.secrets.trust.bring(link, row.id, machine, authority, bounds))
    const env = environment(entry, asked_env, { below: is_trusted ? TRUST_VARIABLES : {}, values })
    return (await link.startExec({ ...session, env }, bounds)).body
  })
}

function environment(entry: WorkspaceEntry, asked: Record<string, string>, secrets: GivenVariables): Record<string, string> {
  try {
    return { ...secrets.below, ...environmentWith(entry, asked, secrets.values) }
  } catch (error) {
    return refuseSecrets(error)
  }
}

function refuseSecrets(error: unknown): never {
  if (!(error instanceof Failure)) throw error
  throw new NoSecrets(error.reason === 'env_collision' ? 'secret_not_available' : 'secrets_unavailable', error.message)
}

export async function readTail(link: AgentLink, session: ExecSession, bounds: CallBounds): Promise<string> {
  const bytes_max = LIMITS.startup.output_tail_bytes
  const from = {
    stdout_offset: Math.max(session.stdout_available_from, session.stdout_bytes - bytes_max),
    stderr_offset: Math.max(session.stderr_available_from, session.stderr_bytes - bytes_max),
  }
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  const reader = createFrameReader(from, {
    output: (stream, _offset, data) => void parts[stream].push(Buffer.from(data)),
    exit: () => undefined,
    error: () => undefined, // bytes that the agent dropped are skipped
  })
  for await (const chunk of await link.openOutput(session.session_id, { ...from, follow: false }, bounds)) reader.push(chunk as Buffer)
  return text(Buffer.concat([...parts.stdout, ...parts.stderr]))
}

/** Returns no output if the output cannot be read, so that the exit code is still reported. */
export async function shown(tail: Promise<string>): Promise<string> {
  try {
    return await tail
  } catch (error) {
    if (error instanceof Failure) return ''
    throw error
  }
}

function text(bytes: Buffer): string {
  return bytes.subarray(-LIMITS.startup.output_tail_bytes).toString('utf8').replaceAll('\0', '\ufffd').toWellFormed()
}

/** Repeats a failed call, so the calls must be repeatable. */
async function patiently<T>(
  job: Job,
  row: MachineRow,
  asked: (link: AgentLink, bounds: CallBounds, machine: LiveMachine) => Promise<T>,
): Promise<T> {
  const until_ms = performance.now() + TROUBLE_MS_MAX
  for (;;) {
    const entry = await entryOf(job, row)
    const machine = job.cell.parking.ready(entry)
    try {
      if (machine !== null) {
        const signal = AbortSignal.any([job.signal, entry.gone])
        return await asked(job.cell.agents.of(entry.id, machine, entry.gone), { signal, room: UNLIMITED_BUDGET }, machine)
      }
      if (entry.residency !== 'resident' || entry.machine !== null) await job.cell.parking.wake(entry)
    } catch (error) {
      job.signal.throwIfAborted()
      if (entry.gone.aborted) throw new MachineEnded()
      const may_pass = error instanceof AgentFailure || (machine === null && error instanceof Failure)
      if (!may_pass || performance.now() > until_ms) throw error
    }
    if (performance.now() > until_ms) throw new MachineEnded()
    await setTimeout(LOOK_MS_MAX, undefined, { signal: job.signal })
    await job.cell.table.fresh(row.id)
  }
}

async function entryOf({ cell, operation }: Job, row: MachineRow): Promise<WorkspaceEntry> {
  const known = cell.table.get(row.id)
  const is_ours = known?.ownership_epoch === row.ownership_epoch && known.hold?.operation_id === operation.id
  const entry = is_ours ? known : await cell.table.fresh(row.id)
  if (entry?.observed_state !== 'running' || entry.ownership_epoch !== row.ownership_epoch || entry.deleted_at !== null) {
    throw new MachineEnded()
  }
  return entry
}
