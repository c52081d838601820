import { setTimeout } from 'node:timers/promises'
import type { Inventory } from '../../../../contract/internal/host-inventory.ts'
import { effectiveOf } from '../../../core/workspaces/egress/effective.ts'
import { readEgressFacts } from '../../../core/workspaces/egress/store.ts'
import { readerOf } from '../../../db/reader.ts'
import { HostFailure } from '../../host/hostd.ts'
import { hostEgress } from './enforcing.ts'
import type { EgressReconcilerContext } from './reconciler.ts'
import { type ExecutionMachine, executionsOf } from './store.ts'

/** No row acknowledges policies of executions, because commands are short. */
export interface ExecutionPolicies {
  /** @param of null: all workspaces */
  changed(of: { workspace_ids: readonly string[] } | { project_id: string } | null): Promise<void>
  compare(inventory: Inventory): Promise<void>
}

const TRIES_MAX = 5
const AGAIN_MS = 500

export function executionPolicies(context: EgressReconcilerContext, signal: AbortSignal): ExecutionPolicies {
  const { cell_id, db, log } = context
  const last = new Map<string, Promise<void>>()
  /** One change at a time: the last one applied must be the newest policy. */
  const inTurn = (machine: ExecutionMachine): Promise<void> => {
    const { workspace_id } = machine
    const next = (last.get(workspace_id) ?? Promise.resolve())
      .then(() => bring(context, machine, signal))
      .catch((error: unknown) => log.warn({ workspace_id, err: error }, 'the machine of an execution does not have its policy yet'))
      .finally(() => {
        if (last.get(workspace_id) === next) last.delete(workspace_id)
      })
    last.set(workspace_id, next)
    return next
  }
  const changed: ExecutionPolicies['changed'] = async (of) => {
    await Promise.all((await executionsOf(db, cell_id, of)).map(inTurn))
  }
  return {
    changed,
    async compare({ machines }) {
      const said = new Map(
        machines.flatMap(({ subject, egress }) => (subject.kind === 'execution' ? [[subject.id, egress?.revision] as const] : [])),
      )
      if (said.size === 0) return
      const facts = await readEgressFacts(readerOf(db), [...said.keys()])
      const other = facts.filter((one) => said.get(one.workspace_id) !== effectiveOf(one).revision).map(({ workspace_id }) => workspace_id)
      if (other.length > 0) await changed({ workspace_ids: other })
    },
  }
}

/** Uses the execution's own fencing token, which interrupts no other operation. After a failure the next comparison retries. */
async function bring(
  { db, ids, host }: EgressReconcilerContext,
  { workspace_id, epoch, fence }: ExecutionMachine,
  signal: AbortSignal,
): Promise<void> {
  for (let tries = 1; !signal.aborted; tries++) {
    const [facts] = await readEgressFacts(readerOf(db), [workspace_id])
    if (facts === undefined) return
    const subject = { kind: 'execution', id: workspace_id } as const
    try {
      await host.setEgress({ subject, operation_id: ids.next(), step: 'egress', epoch, fence, egress: hostEgress(effectiveOf(facts)) })
      return
    } catch (error) {
      if (!(error instanceof HostFailure)) throw error
      // No retry: the execution has ended, was replaced, or has not started. Its start reads the policy again.
      if (error.code === 'fenced' || error.code === 'not_running' || error.code === 'not_found') return
      if (tries >= TRIES_MAX) throw error
      await setTimeout(AGAIN_MS, undefined, { signal }).catch(() => undefined)
    }
  }
}
