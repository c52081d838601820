import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Inventory } from '../../../../contract/internal/host-inventory.ts'
import { effectiveOf, type EgressFacts } from '../../../core/workspaces/egress/effective.ts'
import { readEgressFacts } from '../../../core/workspaces/egress/store.ts'
import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Ids } from '../../../lib/ids.ts'
import { HostFailure, type MachineHost } from '../../host/hostd.ts'
import { isWorkspace, workspaceSubject } from '../../host/subject.ts'
import type { Parking } from '../../machines/parking.ts'
import { drawFence } from '../../machines/settle-store.ts'
import { createSemaphore } from '../../../lib/bounded.ts'
import type { ObservedPolicies } from './observed-policies.ts'
import { hostEgress, reportedPolicyOf } from './enforcing.ts'
import { executionPolicies, type ExecutionPolicies } from './executions.ts'
import { acknowledge, fencingTokenOfHolder, idsOfProject, type ReportedPolicy } from './store.ts'

export interface EgressReconcilerContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  parking: Pick<Parking, 'inTransition' | 'transitionEnded'>
  log: Logger
}

export interface EgressReconciler {
  /** Stores the policies that the host reports, and fixes differences. */
  compare(inventory: Inventory): Promise<void>
  /** Resolves when all changes known before this call are applied to the machines of the workspace or project. */
  settled(of: { workspace_id: string } | { project_id: string }): Promise<void>
}

/** done: applied, or there is no machine. soon: another operation was at work. later: the host failed. */
type SettleResult = 'done' | 'soon' | 'later'

const AT_ONCE_MAX = 16
const FACTS_A_STATEMENT = 500
const SOON_MS = 50
const LATER_MS_MIN = 200
const LATER_MS_MAX = 5000
const OF_PROJECT = 'project:'

interface Working {
  again: boolean
  done: PromiseWithResolvers<void>
}

interface ReconcilerState {
  readonly context: EgressReconcilerContext
  /** Policies in force, as the host last reported them. */
  readonly observed: ObservedPolicies
  readonly executions: ExecutionPolicies
  readonly signal: AbortSignal
  /** Workspaces whose policy is being applied: one command at a time for each. */
  readonly working: Map<string, Working>
  readonly limited: ReturnType<typeof createSemaphore>
}

/**
 * Applies policies to running machines: a change as soon as the database reports it, and missed changes with each comparison of rows and
 * host. Each machine gets one command at a time, since the host applies them in order of arrival.
 */
export function startEgressReconciler(
  context: EgressReconcilerContext,
  listener: Listener,
  observed: ObservedPolicies,
  signal: AbortSignal,
): EgressReconciler {
  const state: ReconcilerState = {
    context,
    observed,
    executions: executionPolicies(context, signal),
    signal,
    working: new Map(),
    limited: createSemaphore(AT_ONCE_MAX),
  }
  const stop = listener.on('berth_egress', (told) => hear(state, told))
  observed.onStale((workspace_id) => changedWorkspace(state, workspace_id))
  signal.addEventListener('abort', stop, { once: true })
  return {
    compare: (inventory) => compare(state, inventory),
    settled: (of) => settled(state, of),
  }
}

/** @param told a workspace, or a project with its prefix; null: notifications may be missing. */
function hear(state: ReconcilerState, told: string | null): void {
  const { db, cell_id } = state.context
  if (told === null) {
    void reconcileFound(state, readOutdatedPolicies(db, state.observed.all()))
    changedExecutions(state, null)
  } else if (told.startsWith(OF_PROJECT)) {
    const project_id = told.slice(OF_PROJECT.length)
    void reconcileFound(state, idsOfProject(db, cell_id, project_id))
    changedExecutions(state, { project_id })
  } else changedWorkspace(state, told)
}

function changedWorkspace(state: ReconcilerState, workspace_id: string): void {
  reconcileAll(state, [workspace_id])
  changedExecutions(state, { workspace_ids: [workspace_id] })
}

function changedExecutions({ executions, context }: ReconcilerState, of: Parameters<ExecutionPolicies['changed']>[0]): void {
  executions.changed(of).catch((error: unknown) => context.log.warn({ err: error }, 'executions wait for the next comparison'))
}

async function reconcileFound(state: ReconcilerState, ids: Promise<string[]>): Promise<void> {
  try {
    reconcileAll(state, await ids)
  } catch (error) {
    state.context.log.warn({ err: error }, 'a change of policies waits for the next comparison')
  }
}

function reconcileAll(state: ReconcilerState, workspace_ids: readonly string[]): void {
  for (const id of workspace_ids) {
    const under_way = state.working.get(id)
    if (under_way !== undefined) {
      under_way.again = true
      continue
    }
    const asked = { again: false, done: Promise.withResolvers<void>() }
    asked.done.promise.catch(() => undefined) // no caller may be waiting for the rejection
    state.working.set(id, asked)
    void reconcileOne(state, id, asked) // not awaited: reconcileOne logs and retries its own errors
  }
}

async function reconcileOne(state: ReconcilerState, workspace_id: string, asked: Working): Promise<void> {
  const { context, observed, signal, working, limited } = state
  for (let later_ms = LATER_MS_MIN; !signal.aborted;) {
    asked.again = false
    await observed.started(workspace_id) // waits for a start under way, which may have read an older policy
    const outcome = await limited(() => settle(context, observed, workspace_id)).catch((error: unknown): SettleResult => {
      context.log.warn({ workspace_id, err: error }, 'a machine does not have its policy yet')
      return 'later'
    })
    if (outcome === 'done') {
      if (isAskedAgain(asked)) continue
      working.delete(workspace_id) // before `resolve`, so that a later change starts a new run
      asked.done.resolve()
      return
    }
    await setTimeout(outcome === 'soon' ? SOON_MS : later_ms, undefined, { signal }).catch(() => undefined)
    if (outcome === 'later') later_ms = Math.min(later_ms * 2, LATER_MS_MAX)
  }
  // Rejects, so that a caller does not wait for ever. The next process of this cell applies the policy.
  working.delete(workspace_id)
  asked.done.reject(new Error('the cell no longer acts'))
}

async function compare(state: ReconcilerState, inventory: Inventory): Promise<void> {
  const { context, observed, executions } = state
  const said = inventory.machines.filter(isWorkspace).flatMap((machine) => reportedPolicyOf(machine) ?? [])
  observed.dropMissing(new Set(said.map(({ workspace_id }) => workspace_id)))
  for (const one of said) observed.put(one)
  reconcileAll(state, await readOutdatedPolicies(context.db, observed.all()))
  await executions.compare(inventory)
}

async function settled(state: ReconcilerState, of: { workspace_id: string } | { project_id: string }): Promise<void> {
  const { context, executions, working } = state
  const ids = 'workspace_id' in of ? [of.workspace_id] : await idsOfProject(context.db, context.cell_id, of.project_id)
  if ('project_id' in of) reconcileAll(state, ids) // reading the project's ids for an earlier notification may still be in progress
  await executions.changed('workspace_id' in of ? { workspace_ids: ids } : of)
  await Promise.all(ids.flatMap((id) => working.get(id)?.done.promise ?? []))
}

/** Reads `again` through a function, because other calls set it during the awaits. */
function isAskedAgain({ again }: { again: boolean }): boolean {
  return again
}

/** @returns machines whose policy differs from the wanted one, or whose row is outdated. */
async function readOutdatedPolicies(db: Db, machines: ReportedPolicy[]): Promise<string[]> {
  const found: string[] = []
  for (let at = 0; at < machines.length; at += FACTS_A_STATEMENT) {
    const part = new Map(machines.slice(at, at + FACTS_A_STATEMENT).map((said) => [said.workspace_id, said]))
    for (const facts of await readEgressFacts(readerOf(db), [...part.keys()])) {
      const said = part.get(facts.workspace_id)
      if (said !== undefined && !(meets(said, effectiveOf(facts).revision) && isWritten(facts, said))) found.push(said.workspace_id)
    }
  }
  return found
}

async function settle(context: EgressReconcilerContext, observed: ObservedPolicies, workspace_id: string): Promise<SettleResult> {
  const { db, clock } = context
  const said = observed.get(workspace_id)
  if (said === undefined) return 'done' // no machine runs: its next start reads the policy
  const [facts] = await readEgressFacts(readerOf(db), [workspace_id])
  if (facts === undefined || facts.ownership_epoch > said.epoch) return 'done' // the machine has no owner any more
  const wanted = effectiveOf(facts)
  if (!meets(said, wanted.revision)) return applyPolicy(context, observed, said, hostEgress(wanted))
  if (!isWritten(facts, said)) await acknowledge(db, said, clock.now())
  return 'done'
}

async function applyPolicy(
  context: EgressReconcilerContext,
  observed: ObservedPolicies,
  said: ReportedPolicy,
  egress: ReturnType<typeof hostEgress>,
): Promise<SettleResult> {
  const { db, clock, ids, host, log } = context
  const { workspace_id, epoch } = said
  const fence = await fencingTokenFor(context, workspace_id)
  if (fence === null) return 'soon'
  try {
    const speech = { subject: workspaceSubject(workspace_id), operation_id: ids.next(), step: 'egress', epoch, fence }
    const { revision } = await host.setEgress({ ...speech, egress })
    const enforced: ReportedPolicy = { ...said, revision, state: 'enforced' }
    observed.put(enforced)
    await acknowledge(db, enforced, clock.now())
    return 'done'
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error
    if (error.code === 'fenced') return 'soon' // another operation has used a higher fencing token
    if (error.code === 'not_running' || error.code === 'not_found') {
      observed.drop(workspace_id)
      return 'done'
    }
    log.warn({ workspace_id, err: error }, 'the host did not put a policy in force')
    // Without a response the policy in force is unknown, so the row stays pending.
    if (error.code !== 'unreachable') await acknowledge(db, { ...said, revision: egress.revision, state: 'failed' }, clock.now())
    return 'later'
  }
}

/**
 * Returns a fencing token that the host accepts and that interrupts no operation.
 * It is drawn before the check for an operation, so that a later operation has a higher token. If an operation holds the workspace, its own
 * token is used.
 * @returns null after it waited for a parking transition
 */
async function fencingTokenFor({ db, parking }: EgressReconcilerContext, workspace_id: string): Promise<number | null> {
  const drawn = await drawFence(db)
  const held = await fencingTokenOfHolder(db, workspace_id)
  if (!parking.inTransition().includes(workspace_id)) return held ?? drawn
  await parking.transitionEnded(workspace_id)
  return null
}

function meets({ revision, state }: ReportedPolicy, wanted: string): boolean {
  return revision === wanted && state === 'enforced'
}

/** Compares no fencing tokens, since they may differ within an epoch: a machine that woke up is the same machine. */
function isWritten({ acknowledged }: EgressFacts, { epoch, revision, state }: ReportedPolicy): boolean {
  return acknowledged?.epoch === epoch && acknowledged.revision === revision && acknowledged.state === state
}
