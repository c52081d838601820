import type { ObservedState } from '../../contract/states/machine.ts'
import type { Clock } from '../../service/lib/clock.ts'
import type { TestDatabase } from '../support/postgres.ts'

export interface FakeCell {
  /** Like the cell's runner, changes the states of operation and workspace and the holds in one transaction. */
  succeed(operation_id: string): Promise<void>
  fail(operation_id: string, error?: { code: string; message: string; retryable: boolean }): Promise<void>
  move(operation_id: string, state: 'capacity_pending' | 'running', state_reason?: string): Promise<void>
}

const AFTER: Record<string, { observed_state: ObservedState; desired_state?: 'running' | 'suspended' }> = {
  open: { observed_state: 'running' },
  adopt: { observed_state: 'running' },
  resume: { observed_state: 'running' },
  fork: { observed_state: 'running' },
  suspend: { observed_state: 'suspended' },
  delete: { observed_state: 'deleted' },
}
const AFTER_FAILURE: typeof AFTER = {
  open: { observed_state: 'failed' },
  resume: { observed_state: 'suspended', desired_state: 'suspended' },
  fork: { observed_state: 'failed' },
  suspend: { observed_state: 'running', desired_state: 'running' },
  delete: { observed_state: 'deleting' },
}

export function fakeCell({ cell: db }: TestDatabase, clock: Clock): FakeCell {
  const end = async (operation_id: string, state: 'succeeded' | 'failed', error: object | null) => {
    const now = clock.now()
    await db.transaction().execute(async (tx) => {
      const { kind, workspace_id } = await tx
        .updateTable('operations')
        .set({ state, state_reason: null, error: error && JSON.stringify(error), started_at: now, completed_at: now, updated_at: now })
        .where('id', '=', operation_id)
        .returning(['kind', 'workspace_id'])
        .executeTakeFirstOrThrow()
      const after = (state === 'succeeded' ? AFTER : AFTER_FAILURE)[kind]
      if (!after || !workspace_id) throw new Error(`the fake cell knows no ${kind}`)
      await tx
        .updateTable('workspaces')
        .set((e) => ({ ...after, ownership_epoch: e('ownership_epoch', '+', 1), updated_at: now }))
        .where('id', '=', workspace_id)
        .execute()
      await tx.deleteFrom('workspace_holds').where('operation_id', '=', operation_id).execute()
    })
  }
  return {
    succeed: (operation_id) => end(operation_id, 'succeeded', null),
    fail: (operation_id, error = { code: 'internal_error', message: 'It failed', retryable: true }) => end(operation_id, 'failed', error),
    async move(operation_id, state, state_reason) {
      const now = clock.now()
      await db
        .updateTable('operations')
        .set({ state, state_reason: state_reason ?? null, updated_at: now, ...(state === 'running' ? { started_at: now } : {}) })
        .where('id', '=', operation_id)
        .execute()
    },
  }
}
