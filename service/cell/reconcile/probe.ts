import { MEASURES_MAX } from '../../../contract/internal/host-disks.ts'
import type { MachineCounters } from '../../../contract/internal/host-inventory.ts'
import type { MachineHost } from '../host/hostd.ts'
import type { AskAlive } from '../machines/activity-query.ts'
import type { ReconcileContext } from './reconcile-pass.ts'
import { stateOf, settle, drawFence } from '../machines/settle-store.ts'
import { isHung, nextSilence, type Silence } from './silence-rules.ts'
import type { SpareShare } from './spare-share.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'
import { workspaceSubject } from '../host/subject.ts'

export interface ProbeContext extends Omit<ReconcileContext, 'quarantine_days'> {
  ask_alive: AskAlive
  spare_share: SpareShare
}

const LOOK_MS = 2000
const QUESTIONS_MAX = 64

/** Probes machines, because no event reports a hanging agent or a machine that was stopped from outside. */
export function startProbe(context: ProbeContext, signal: AbortSignal): void {
  const silent = new Map<string, Silence>()
  const failed = (error: unknown) => context.log.warn({ err: error }, 'the machines could not be probed')
  const look = oneAtATime(() => probe(context, silent))
  tickEvery(LOOK_MS, look, failed, signal)
}

/** Leaves out frozen machines, which cannot answer, and machines that an operation holds, which may be paused. */
export async function probe(context: ProbeContext, silent: Map<string, Silence>): Promise<void> {
  const asked = context.table.known().filter((entry): entry is Answering => shouldAnswer(entry))
  const mute: Answering[] = []
  for (let at = 0; at < asked.length; at += QUESTIONS_MAX) {
    const part = asked.slice(at, at + QUESTIONS_MAX)
    const alive = await Promise.all(part.map(({ machine }) => context.ask_alive(machine)))
    mute.push(...part.filter((_, index) => alive[index] === false))
  }
  const spare_share = context.spare_share()
  const names = new Set(mute.map(nameOf))
  for (const name of silent.keys()) if (!names.has(name)) silent.delete(name)
  if (mute.length === 0) return
  const counters = new Map((await statsOf(context.host, mute)).map((one) => [nameOf({ id: one.subject.id, machine: one }), one]))
  const looked_ms = context.clock.monotonic_ms()
  for (const entry of mute) {
    const [name, counted] = [nameOf(entry), counters.get(nameOf(entry))]
    if (counted === undefined) continue // skipped: the machine has ended, and an event reports it
    const look = { cpu_usec: counted.cpu_usec, looked_ms, cpu_millis: entry.grants?.cpu_millis ?? null, spare_share }
    const silence = nextSilence(silent.get(name), look)
    silent.set(name, silence)
    if (isHung(silence)) await end(context, entry)
  }
}

type Answering = WorkspaceEntry & { machine: LiveMachine }

function shouldAnswer(entry: WorkspaceEntry): boolean {
  const { machine, hold, observed_state } = entry
  return machine !== null && machine.state === 'running' && hold === null && observed_state === 'running'
}

/** In small groups, because the host reads the counters of a whole disk for each machine. */
async function statsOf(host: MachineHost, mute: Answering[]): Promise<MachineCounters[]> {
  const found: MachineCounters[] = []
  for (let at = 0; at < mute.length; at += MEASURES_MAX)
    found.push(...(await host.stats(mute.slice(at, at + MEASURES_MAX).map(({ id }) => workspaceSubject(id)))))
  return found
}

function nameOf({ id, machine }: { id: string; machine: { fence: number } }): string {
  return `${id}:${machine.fence}`
}

/** The fence is drawn first, so that every later request has a higher fence and wins. */
async function end(context: ProbeContext, { id, machine }: Answering): Promise<void> {
  const fence = await drawFence(context.db)
  const found = (await context.host.glance()).machines.find((one) => one.subject.id === id && one.fence === machine.fence)
  const row = await stateOf(context.db, id)
  const entry = await context.table.fresh(id)
  // The table missed a late freeze: once marked, the next call thaws the machine.
  if (found?.state === 'frozen') context.table.markMachine(id, machine.fence, 'frozen')
  if (found?.state !== 'running' || row?.ownership_epoch !== machine.epoch || !entry || !shouldAnswer(entry)) return
  context.log.warn({ workspace_id: id, epoch: machine.epoch }, 'a machine hangs and is ended')
  const speaks = { subject: workspaceSubject(id), operation_id: context.ids.next(), step: 'probe-stop', epoch: machine.epoch, fence }
  await context.host.stop({ ...speaks, machine_epoch: machine.epoch })
  context.metrics?.died('hung')
  context.table.endMachine(id, machine.fence, 'died')
  await settle(context.db, row, 'died', context.clock.now())
}
