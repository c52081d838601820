import { LIMITS } from '../../../contract/limits.ts'
import { createKeyedCounts, type KeyedCounts } from '../../lib/bounded.ts'
import { AgentFailure } from './agent-failure.ts'

/** The workspace and organization to which a call's memory is charged. */
export interface BudgetOwner {
  id: string
  organization_id: string
}

/** The cell-wide budget for buffers that agents and callers fill. */
export interface BufferBudgets {
  /** @param bytes of the request, which are charged at once. @returns the budget of one call; null if the cell has none left. */
  open(owner: BudgetOwner, bytes: number): BufferBudget | null
  taken_bytes(): number
}

export interface BufferBudget extends Disposable {
  /** Charges further bytes. Throws AgentFailure if the owner's share is used up; the answer is dropped in this case. */
  take(bytes: number): void
  /** Resolves in a free event-loop tick. Each tick serves one large answer. */
  nextTick(): Promise<void>
}

/** Every call is charged at least this, for its own records and a short answer. */
export const CALL_BYTES = 16 << 10

interface BudgetsState {
  bytes_max: number
  workspaces: KeyedCounts
  organizations: KeyedCounts
  /** Resolves after the last event-loop tick that was given to a large answer. */
  last: Promise<unknown>
}

export function createBufferBudgets(bytes_max: number = LIMITS.tool_call.answer_bytes_per_cell_max): BufferBudgets {
  const state: BudgetsState = { bytes_max, workspaces: createKeyedCounts(), organizations: createKeyedCounts(), last: Promise.resolve() }
  return {
    taken_bytes: () => state.workspaces.total(),
    open: (owner, request_bytes) => openBudget(state, owner, CALL_BYTES + request_bytes),
  }
}

function openBudget(state: BudgetsState, owner: BudgetOwner, bytes_first: number): BufferBudget | null {
  if (!fits(state, owner, bytes_first)) return null
  add(state, owner, bytes_first)
  let own = bytes_first
  let is_open = true
  return {
    take(bytes) {
      // Memory acquired after the end would never be released.
      if (!is_open || !fits(state, owner, bytes)) throw new AgentFailure('crowded', 'There is no room for the answer')
      add(state, owner, bytes)
      own += bytes
    },
    nextTick() {
      state.last = state.last.then(nextTurn)
      return state.last.then(() => undefined)
    },
    [Symbol.dispose]() {
      is_open = false
      add(state, owner, -own)
      own = 0
    },
  }
}

/**
 * An organization may use at most as much as remains free, so that n organizations at their maximum leave one part in n + 1. A workspace
 * may use half of that, so that it does not use up its organization's share.
 */
function fits({ bytes_max, workspaces, organizations }: BudgetsState, { id, organization_id }: BudgetOwner, bytes: number): boolean {
  const left = bytes_max - workspaces.total() - bytes
  return organizations.of(organization_id) + bytes <= left && 2 * (workspaces.of(id) + bytes) <= left
}

function add({ workspaces, organizations }: BudgetsState, { id, organization_id }: BudgetOwner, bytes: number): void {
  workspaces.add(id, bytes)
  organizations.add(organization_id, bytes)
}

/** For the cell's own calls, which need no limit because their answers are short. */
export const UNLIMITED_BUDGET: BufferBudget = { take: () => undefined, nextTick: nextTurn, [Symbol.dispose]: () => undefined }

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
