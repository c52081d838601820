import { setTimeout } from 'node:timers/promises'
import type { WarmReason } from '../../../../contract/errors.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import type { WarmVersion } from '../../../../contract/schemas/templates.ts'
import { DENY_ALL } from '../../../../contract/egress/policy.ts'
import type { Machine } from '../../../../contract/internal/host-inventory.ts'
import type { CommandHeader } from '../../../../contract/internal/host-subject.ts'
import { revisionOf } from '../../../core/workspaces/egress/effective.ts'
import type { Resources } from '../../../db/column-types.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { dropBuildMachine, grantBuildMachine } from '../builds/machine-store.ts'
import { hostEgress } from '../../policies/egress/enforcing.ts'
import type { AgentLink } from '../../host/agent-link.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { UNLIMITED_BUDGET } from '../../host/buffer-budget.ts'
import { HostFailure } from '../../host/hostd.ts'
import { buildSubject } from '../../host/subject.ts'
import { liveMachine } from '../../machines/live-table.ts'
import type { CellContext } from '../job.ts'
import { readTail, shown } from '../startup-guest.ts'
import { runStep, type StartupGuest } from '../startup-run.ts'
import { stepsOf } from '../startup-steps.ts'
import { beginCapture, commitCapture, failCapture, type Captured, type RequestedCapture } from './store.ts'

export type WarmContext = Pick<CellContext, 'cell_id' | 'db' | 'clock' | 'ids' | 'host' | 'room' | 'agents' | 'log'>

type WarmError = NonNullable<WarmVersion['error']>

/** A lasting failure: opens start cold, and the version shows the error. */
class CannotWarm extends Error {
  readonly error: WarmError
  constructor(error: WarmError) {
    super(error.reason)
    this.error = error
  }
}

/**
 * Makes a capture of a machine without inputs and secrets. Removes the remains of an earlier attempt first, so this may run again from
 * any point.
 * @returns false: no capacity yet
 * @throws errors that do not concern the version: the caller tries again
 */
export async function makeCapture(context: WarmContext, wanted: RequestedCapture, ends: AbortSignal): Promise<boolean> {
  const { db, clock, room } = context
  const fence = await beginCapture(db, wanted.id, clock.now())
  if (fence === undefined) return true
  const speak = speaking(context, wanted, fence)
  await context.host.deleteSubject(speak('clear'))
  await dropBuildMachine(db, wanted.id)
  if (!(await takeRoom(context, wanted, fence))) return false
  const over = AbortSignal.timeout(LIMITS.warm.seconds_max * 1000)
  const signal = AbortSignal.any([ends, over])
  try {
    const made = await capture(context, wanted, speak, signal)
    await failpoint('warm.W3')
    await commitCapture(db, wanted.id, fence, made, clock.now())
  } catch (error) {
    ends.throwIfAborted()
    await context.host.deleteSubject(speak('undo'))
    const known = over.aborted ? said(null, 'timed_out', 'The start-up took too long') : whyNot(error)
    if (known === undefined) throw error
    context.log.warn({ version_id: wanted.version_id, reason: known.reason, step: known.step, err: error }, 'a version cannot be warm')
    await failCapture(db, wanted.id, known, clock.now())
  } finally {
    if (!ends.aborted) await dropBuildMachine(db, wanted.id)
    room.released()
  }
  return true
}

async function takeRoom({ db, cell_id, clock, room }: WarmContext, wanted: RequestedCapture, fence: number): Promise<boolean> {
  const { id, organization_id, project_id } = wanted
  const grants = sizeOf(wanted.settings)
  const want = { id, organization_id, memory_mib: grants.memory_mib, disk_gib: grants.disk_gib, since: clock.now(), is_call: false }
  const grant = { build_id: id, organization_id, project_id, cell_id, fence, grants }
  const reserve = async () => {
    await grantBuildMachine(db, grant)
    return true
  }
  return (await room.acquire(want, reserve, LIMITS.warm.room_wait_seconds * 1000)) !== null
}

async function capture(
  context: WarmContext,
  wanted: RequestedCapture,
  speak: (step: string) => CommandHeader,
  signal: AbortSignal,
): Promise<Captured> {
  const { host, ids } = context
  await failpoint('warm.W1')
  const machine = await host.start({
    ...speak('start'),
    resources: sizeOf(wanted.settings),
    hostname: `warm-${wanted.id.slice(-12)}`,
    layers: wanted.layers,
    egress: NO_NETWORK,
    connect: true,
  })
  await startUp(context, wanted, machine, signal)
  await failpoint('warm.W2')
  signal.throwIfAborted()
  const checkpoint_id = ids.next()
  const info = await host.checkpoint({ ...speak('capture'), checkpoint_id, then: 'paused' })
  await host.stop(speak('stop'))
  await host.deleteDisks({ ...speak('drop'), names: [machine.disk] })
  const { engine, resources, size_bytes, disk_bytes } = info
  return { checkpoint_id, engine, agent_protocol: machine.agent_protocol, resources, size_bytes: size_bytes + (disk_bytes ?? 0) }
}

/** Restored machines would find connections cut. No organization's policy is bypassed. */
const NO_NETWORK = hostEgress({ effective: DENY_ALL, revision: revisionOf(DENY_ALL), secret_ports: [] })

async function startUp({ agents }: WarmContext, wanted: RequestedCapture, machine: Machine, signal: AbortSignal): Promise<void> {
  const gone = new AbortController()
  try {
    const link = agents.of(wanted.id, liveMachine(machine, undefined), gone.signal)
    const guest = guestOn(link, wanted.settings, signal)
    for (const step of stepsOf(wanted.settings)) {
      const failed = await runStep(guest, step, wanted.id)
      if (failed !== null) throw new CannotWarm(said(failed.step, failed.reason, failed.output_tail, failed.exit_code))
    }
  } finally {
    gone.abort()
  }
}

function guestOn(link: AgentLink, { env, inputs }: TemplateSettings, signal: AbortSignal): StartupGuest {
  const bounds = { signal, room: UNLIMITED_BUDGET }
  const defaults = Object.entries(inputs).flatMap(([name, input]) => (input.default === undefined ? [] : [[name, input.default] as const]))
  const below = { ...env, ...Object.fromEntries(defaults) }
  return {
    async start({ asked_env, needs: _, ...session }) {
      return (await patiently(() => link.startExec({ ...session, env: { ...below, ...asked_env } }, bounds), signal)).body
    },
    look: (session_id) => patiently(() => link.getExec(session_id, bounds), signal),
    cancel: async (session_id) => void (await patiently(() => link.cancelExec(session_id, bounds), signal)),
    tail: (session) => shown(readTail(link, session, bounds)),
    signal,
  }
}

const TRIES_MAX = 5
const RETRY_MS = 500

/** A guest that is busy with its start-up may miss a request. Each is safe to repeat. */
async function patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof AgentFailure) || tries === TRIES_MAX) throw error
      await setTimeout(RETRY_MS, undefined, { signal })
    }
  }
}

function sizeOf({ defaults }: TemplateSettings): Resources {
  const { cpu_millis, memory_mib, disk_gib } = defaults
  return { cpu_millis, memory_mib, disk_gib }
}

function speaking({ ids }: WarmContext, { id }: RequestedCapture, fence: number): (step: string) => CommandHeader {
  const operation_id = ids.next()
  return (step) => ({ subject: buildSubject(id), operation_id, step, epoch: 1, fence })
}

/** @returns the lasting error of the version; undefined if another attempt may succeed */
function whyNot(error: unknown): WarmError | undefined {
  if (error instanceof CannotWarm) return error.error
  if (error instanceof AgentFailure) return said(null, 'no_answer', 'The machine does not answer any more: its memory may not suffice')
  // A full pool is a lasting error: it outlasts the minute until the next pass, which would start the machine in vain.
  const may_pass = ['unreachable', 'no_capacity', 'fenced']
  if (!(error instanceof HostFailure) || may_pass.includes(error.code)) return undefined
  return said(null, 'machine_failed', error.message)
}

function said(step: string | null, reason: WarmReason, output_tail: string, exit_code: number | null = null): WarmError {
  return { step, reason, exit_code, output_tail }
}
