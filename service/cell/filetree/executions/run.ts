import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { ExecRequest } from '../../../../contract/internal/agent-runs.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ExecutionTimings } from '../../../../contract/schemas/cell/execution.ts'
import type { Machine } from '../../../../contract/internal/host-inventory.ts'
import type { CommandHeader, Subject } from '../../../../contract/internal/host-subject.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import type { Ids } from '../../../lib/ids.ts'
import { openLink as openAgentLink, type OpenLink } from '../../host/agent.ts'
import type { AgentLink } from '../../host/agent-link.ts'
import type { CallBounds } from '../../host/agent-answer.ts'
import { UNLIMITED_BUDGET } from '../../host/buffer-budget.ts'
import { HostFailure, type MachineHost } from '../../host/hostd.ts'
import { drawFence } from '../../machines/settle-store.ts'
import { hostnameOf } from '../../host/hostname.ts'
import { readMachineRow, type MachineRow } from '../../machines/machine-row-store.ts'
import type { CapacityAllocator } from '../../capacity/allocator.ts'
import type { Digest } from '../trees/blobs.ts'
import type { DirectoryEntry } from '../trees/entries.ts'
import { encodedRoot } from '../trees/tree.ts'
import { digestOf } from '../trees/blob-files.ts'
import type { Revision } from '../trees/revisions.ts'
import type { Trees } from '../trees/trees.ts'
import { isGone, copyEntries } from './copy.ts'
import { NoHost, Unsuccessful } from './outcome.ts'
import { followToEnd, type Output } from './output.ts'
import { readRootIfThere } from './roots.ts'
import { dropMachine, type ExecutionKey, grantMachine } from './store.ts'
import { retryWrite } from './retry-write.ts'

export interface ExecutionDeps {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  room: CapacityAllocator
  trees: Trees
  log: Logger
  /** Time allowed beyond the command's limit before the machine is ended as stuck. Only tests set this. */
  overtime_ms?: number
  openLink?: (machine: Machine) => OpenLink
}

export interface Run extends ExecutionKey {
  deps: ExecutionDeps
  operation_id: string
  timings: Partial<ExecutionTimings>
  base: Revision
  row: MachineRow
  /** The fencing token of the machine; 0 before a machine is granted. */
  fence: number
}

export interface Command {
  exec: PlainExec
  output_limit_bytes: number
  /** Set if the proxy injects secrets into requests of the command. The guest must then trust the proxy's certificate authority. */
  trusting?: {
    /** @returns false if the guest cannot use the certificate authority; the command runs nevertheless */
    bring(agent: AgentLink, machine: Pick<Machine, 'epoch' | 'fence'>, bounds: CallBounds): Promise<boolean>
    exec: PlainExec
  }
}

type PlainExec = Omit<ExecRequest, 'session_id' | 'fingerprint'>

export interface StartedMachine {
  machine: Machine
  /** The tree that the machine started with; null if the tree was empty. */
  tree: Digest | null
}

const SESSION_ID = 'execution'
const REACH_AGAIN_MS = 250
const REACH_TRIES_MAX = 20
const STALE_MAX = 3

export function subjectOf({ workspace_id }: ExecutionKey): Subject {
  return { kind: 'execution', id: workspace_id }
}

export function commandHeader(run: Run, step: string): CommandHeader {
  return { subject: subjectOf(run), operation_id: run.operation_id, step, epoch: 1, fence: run.fence }
}

export async function timed<T>(run: Pick<Run, 'timings'>, step: keyof ExecutionTimings, work: () => Promise<T>): Promise<T> {
  const began = performance.now()
  try {
    return await work()
  } finally {
    run.timings[step] = (run.timings[step] ?? 0) + Math.round(performance.now() - began)
  }
}

export async function prepare(deps: ExecutionDeps, key: ExecutionKey, base_revision: number): Promise<Run> {
  const { workspace_id } = key
  const [row, base] = await Promise.all([readMachineRow(deps.db, workspace_id), deps.trees.current(workspace_id)])
  if (base?.revision !== base_revision) throw new Unsuccessful('failed', 'tree_moved', 'The tree has moved on')
  if (row.disk_layout !== 'layered') {
    throw new Unsuccessful('failed', 'layout_unsupported', 'The template has no layers')
  }
  return { ...key, deps, operation_id: deps.ids.next(), timings: {}, base, row, fence: 0 }
}

/** @throws NoHost */
export async function acquireCapacity(run: Run): Promise<void> {
  const { deps, row, operation_id } = run
  const { memory_mib, disk_gib } = row.ceilings
  const want = { id: operation_id, organization_id: row.organization_id, memory_mib, disk_gib, since: deps.clock.now(), is_call: true }
  const reserve = async () => {
    run.fence = await drawFence(deps.db)
    return grantMachine(deps.db, { ...run, cell_id: deps.cell_id, grants: row.ceilings })
  }
  await failpoint('execution.E2')
  const given = await deps.room.acquire(want, reserve, LIMITS.execution.room_wait_ms)
  if (given === null) throw new NoHost()
  if (!given.value) throw new Unsuccessful('lost', 'lease_expired', 'Another process has taken over')
}

/** The host may be restarting. Repeating these commands is safe, since they are idempotent. */
async function retryUnreachable<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof HostFailure) || error.code !== 'unreachable' || tries >= REACH_TRIES_MAX) throw error
      await setTimeout(REACH_AGAIN_MS)
    }
  }
}

/** @throws NoHost */
export async function begin(run: Run): Promise<StartedMachine> {
  const { deps, row, base } = run
  const tree = base.root.page === null ? null : digestOf(encodedRoot(base.root))
  const request = {
    resources: row.ceilings,
    hostname: hostnameOf(run.workspace_id),
    layers: row.layers,
    connect: true,
    ...(tree === null ? {} : { tree, tree_bytes: base.root.page?.bytes ?? 0 }),
  }
  for (let tries = 1; ; tries++) {
    try {
      const machine = await timed(run, 'start', () =>
        retryUnreachable(() => deps.host.start({ ...commandHeader(run, `start-${tries}`), ...request })),
      )
      return { machine, tree }
    } catch (error) {
      if (!(error instanceof HostFailure) || tries > STALE_MAX) throw error
      if (error.code === 'no_capacity' || error.code === 'no_space') throw new NoHost('no room', { cause: error })
      // The machine of an earlier execution still runs, because its end was not reported. It is stopped first.
      if (error.code === 'already_running') await deps.host.stop(commandHeader(run, `stop-earlier-${tries}`))
      else if (error.code === 'tree_stale' && tree !== null)
        await timed(run, 'tree', () => ignoreUnreachable(moveCopy(run, tree, error, tries)))
      else throw error
    }
  }
}

/** An unreachable host may have restarted. The next start reports the state of the host's copy, so this error is ignored. */
async function ignoreUnreachable(moved: Promise<void>): Promise<void> {
  try {
    await moved
  } catch (error) {
    if (!(error instanceof HostFailure) || error.code !== 'unreachable') throw error
  }
}

async function moveCopy(run: Run, to: Digest, { details }: HostFailure, tries: number): Promise<void> {
  const { base } = run
  const has = typeof details['digest'] === 'string' && details['digest'] !== '' ? details['digest'] : null
  const before = has === null || tries > 1 ? null : await readRootIfThere(run.deps.trees.blobs(run.workspace_id), has)
  try {
    await apply(run, before === null ? null : { digest: has as Digest, root: before }, { digest: to, root: base.root }, `apply-${tries}`)
  } catch (error) {
    if (before === null || !isGone(error)) throw error
    await apply(run, null, { digest: to, root: base.root }, `apply-anew-${tries}`)
  }
}

interface Tree {
  digest: Digest
  root: DirectoryEntry
}

function apply(run: Run, from: Tree | null, to: Tree, step: string): Promise<void> {
  const { deps, row } = run
  const entries = copyEntries(deps.trees.blobs(run.workspace_id), from?.root ?? null, to.root)
  const request = { layers: row.layers, disk_gib: row.ceilings.disk_gib, to: to.digest, ...(from === null ? {} : { from: from.digest }) }
  return deps.host.applyTree({ ...commandHeader(run, step), ...request }, entries)
}

export async function execute(run: Run, { machine }: StartedMachine, { exec, output_limit_bytes, trusting }: Command): Promise<Output> {
  const { link, close } = (run.deps.openLink ?? openAgentLink)(machine)
  // The guest enforces the time limit. This longer limit ends a command whose guest fails to do so.
  const { overtime_ms = LIMITS.execution.overtime_seconds * 1000 } = run.deps
  const over = AbortSignal.timeout((exec.timeout_ms ?? LIMITS.execution.timeout_ms_default) + overtime_ms)
  const bounds = { signal: over, room: UNLIMITED_BUDGET }
  try {
    await failpoint('execution.E3')
    return await timed(run, 'run', async () => {
      const is_trusting = trusting !== undefined && (await trusting.bring(link, machine, bounds))
      const given = is_trusting ? trusting.exec : exec
      const { body } = await link.startExec({ ...given, session_id: SESSION_ID, fingerprint: SESSION_ID }, bounds)
      if (body.state === 'failed_to_start') throw notStarted(body.error)
      const output = await followToEnd(link, SESSION_ID, output_limit_bytes, bounds)
      if (output.ending.state === 'failed_to_start') throw notStarted(output.ending.error)
      if (output.ending.state === 'lost') throw new Unsuccessful('lost', 'host_unreachable', 'The command was lost with its machine')
      return output
    })
  } catch (error) {
    throw over.aborted ? new Unsuccessful('lost', 'host_unreachable', 'The machine did not end the command in its time') : error
  } finally {
    close()
  }
}

function notStarted(cause: string | null): Unsuccessful {
  return new Unsuccessful('failed', 'exec_failed_to_start', cause ?? 'The command could not start')
}

/** Afterwards no code of the machine runs. */
export async function end(run: Run): Promise<void> {
  await timed(run, 'stop', () => retryUnreachable(() => run.deps.host.stop(commandHeader(run, 'stop'))))
}

/** Deletes the disk of the machine. If the deletion fails, the reconciler deletes the disk later. */
export async function clear(run: Run, begun: StartedMachine | null): Promise<void> {
  const { deps } = run
  try {
    if (begun !== null) await deps.host.deleteDisks({ ...commandHeader(run, 'drop-disk'), names: [begun.machine.disk] })
  } catch (error) {
    deps.log.debug({ workspace_id: run.workspace_id, err: error }, 'the reconciler removes the disk of an execution')
  }
}

export async function abandon(run: Run, begun: StartedMachine | null): Promise<void> {
  const { deps } = run
  if (run.fence === 0) return // no machine was granted
  try {
    await deps.host.stop(commandHeader(run, 'stop-abandoned'))
    await clear(run, begun)
  } catch (error) {
    deps.log.warn({ workspace_id: run.workspace_id, err: error }, 'the reconciler ends the machine of an execution')
    deps.room.requestReconcile()
  }
  await retryWrite(() => dropMachine(deps.db, run.workspace_id, run.fence))
  deps.room.released()
}
