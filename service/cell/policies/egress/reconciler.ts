import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { effectiveOf, type EgressFacts } from '../../../core/workspaces/egress/effective.ts'
import { readEgressFacts } from '../../../core/workspaces/egress/store.ts'
import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Ids } from '../../../lib/ids.ts'
import { HostFailure, type Inventory, type MachineHost } from '../../host/hostd.ts'
import { isWorkspace, workspaceSubject } from '../../host/subject.ts'
import type { Parking } from '../../machines/parking.ts'
import { drawFence } from '../../machines/settle-store.ts'
import { createSemaphore } from '../../../lib/bounded.ts'
import type { ObservedPolicies } from './observed-policies.ts'
import { hostEgress, reportedPolicyOf } from './enforcing.ts'
import { executionPolicies } from './executions.ts'
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
  /** Takes over the host's report and fixes differences. */
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

/**
 * Applies policies to running machines: a change as soon as the database reports it, and missed changes with each comparison of rows and
 * host. Each machine gets one command at a time, since the host applies them in order of arrival.
 */
export function startEgressReconciler(
  context: EgressReconcilerContext,
  listener: Listener,
  book: ObservedPolicies,
  signal: AbortSignal,
): EgressReconciler {
  const { db, log } = context
  const working = new Map<string, Working>()
  const inTurn = createSemaphore(AT_ONCE_MAX)

  const work = async (workspace_id: string, asked: Working) => {
    for (let later_ms = LATER_MS_MIN; !signal.aborted;) {
      asked.again = false
      await book.started(workspace_id) // its start may have read an older policy
      const outcome = await inTurn(() => settle(context, book, workspace_id)).catch((error: unknown): SettleResult => {
        log.warn({ workspace_id, err: error }, 'a policy is not at its machine yet')
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
  }
  const look = (workspace_ids: string[]) => {
    for (const id of workspace_ids) {
      const under_way = working.get(id)
      if (under_way !== undefined) {
        under_way.again = true
        continue
      }
      const asked = { again: false, done: Promise.withResolvers<void>() }
      working.set(id, asked)
      void work(id, asked) // it logs and retries its own errors
    }
  }
  const lookAtAll = async (ids: Promise<string[]>) => {
    try {
      look(await ids)
    } catch (error) {
      log.warn({ err: error }, 'a change of policies waits for the next comparison')
    }
  }
  const executions = executionPolicies(context, signal)
  const changed = (of: Parameters<typeof executions.changed>[0]) =>
    void executions.changed(of).catch((error: unknown) => log.warn({ err: error }, 'executions wait for the next comparison'))
  const lookAtOne = (workspace_id: string) => {
    look([workspace_id])
    changed({ workspace_ids: [workspace_id] })
  }
  const compare: EgressReconciler['compare'] = async (inventory) => {
    const said = inventory.machines.filter(isWorkspace).flatMap((machine) => reportedPolicyOf(machine) ?? [])
    book.dropMissing(new Set(said.map(({ workspace_id }) => workspace_id)))
    for (const one of said) book.put(one)
    look(await readOutdatedPolicies(db, book.all()))
    await executions.compare(inventory)
  }
  const settled: EgressReconciler['settled'] = async (of) => {
    const ids = 'workspace_id' in of ? [of.workspace_id] : await idsOfProject(db, context.cell_id, of.project_id)
    if ('project_id' in of) look(ids) // reading the project's ids for an earlier notification may still be in progress
    await executions.changed('workspace_id' in of ? { workspace_ids: ids } : of)
    await Promise.all(ids.flatMap((id) => working.get(id)?.done.promise ?? []))
  }
  const stop = listener.on('berth_egress', (told) => {
    if (told === null) {
      void lookAtAll(readOutdatedPolicies(db, book.all())) // notifications may be missing
      changed(null)
    } else if (told.startsWith(OF_PROJECT)) {
      const project_id = told.slice(OF_PROJECT.length)
      void lookAtAll(idsOfProject(db, context.cell_id, project_id))
      changed({ project_id })
    } else lookAtOne(told)
  })
  book.onStale(lookAtOne)
  signal.addEventListener('abort', stop, { once: true })
  return { compare, settled }
}

interface Working {
  again: boolean
  done: PromiseWithResolvers<void>
}

/** Read through a function, since other calls set it during the awaits. */
function isAskedAgain({ again }: { again: boolean }): boolean {
  return again
}

/** Machines whose policy differs from the wanted one, or whose row is not up to date. */
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

async function settle(context: EgressReconcilerContext, book: ObservedPolicies, workspace_id: string): Promise<SettleResult> {
  const { db, clock } = context
  const said = book.get(workspace_id)
  if (said === undefined) return 'done' // its next start reads the policy
  const [facts] = await readEgressFacts(readerOf(db), [workspace_id])
  if (facts === undefined || facts.ownership_epoch > said.epoch) return 'done' // the machine has no owner any more
  const wanted = effectiveOf(facts)
  if (!meets(said, wanted.revision)) return applyPolicy(context, book, said, hostEgress(wanted))
  if (!isWritten(facts, said)) await acknowledge(db, said, clock.now())
  return 'done'
}

async function applyPolicy(
  context: EgressReconcilerContext,
  book: ObservedPolicies,
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
    book.put(enforced)
    await acknowledge(db, enforced, clock.now())
    return 'done'
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error
    if (error.code === 'fenced') return 'soon' // another operation has used a higher fencing token
    if (error.code === 'not_running' || error.code === 'not_found') {
      book.drop(workspace_id)
      return 'done'
    }
    log.warn({ workspace_id, err: error }, 'the host did not put a policy in force')
    // Without a response the policy in force is unknown, so the row stays pending.
    if (error.code !== 'unreachable') await acknowledge(db, { ...said, revision: egress.revision, state: 'failed' }, clock.now())
    return 'later'
  }
}

/**
 * Returns a fencing token that the host accepts and that interrupts no operation. It is drawn before the look for an operation, so that a
 * later operation has a higher one. An operation that holds the workspace lends its own.
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

/** The fencing token may differ within an epoch: a machine that woke up is the same one. */
function isWritten({ acknowledged }: EgressFacts, { epoch, revision, state }: ReportedPolicy): boolean {
  return acknowledged?.epoch === epoch && acknowledged.revision === revision && acknowledged.state === state
}
