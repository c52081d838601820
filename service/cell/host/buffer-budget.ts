import { LIMITS } from '../../../contract/limits.ts'
import { AgentFailure } from './agent-failure.ts'

/** The workspace and organization that a call's memory counts against. */
export interface BudgetOwner {
  id: string
  organization_id: string
}

/** The cell-wide budget for buffers that agents and callers fill. */
export interface BufferBudgets {
  /** @param bytes of the request; they count from the beginning. @returns the budget of one call; null if the cell has none left. */
  open(owner: BudgetOwner, bytes: number): BufferBudget | null
  taken_bytes(): number
}

export interface BufferBudget extends Disposable {
  /** Acquires more. Throws AgentFailure when the owner's share is used up; the answer is then dropped. */
  take(bytes: number): void
  /** Resolves in a free event-loop tick. Each tick serves one large answer. */
  nextTick(): Promise<void>
}

/** Every call counts at least this: its own records and a short answer. */
export const CALL_BYTES = 16 << 10

export function createBufferBudgets(bytes_max: number = LIMITS.tool_call.answer_bytes_per_cell_max): BufferBudgets {
  const held = new Map<string, number>() // by organization and by workspace; their ids never collide
  let taken = 0
  let last: Promise<unknown> = Promise.resolve()
  const add = (owner: BudgetOwner, bytes: number) => {
    taken += bytes
    for (const name of [owner.id, owner.organization_id]) {
      const sum = (held.get(name) ?? 0) + bytes
      if (sum === 0) held.delete(name)
      else held.set(name, sum)
    }
  }
  const fits = (owner: BudgetOwner, bytes: number) => {
    const left = bytes_max - taken - bytes
    const [workspace = 0, organization = 0] = [held.get(owner.id), held.get(owner.organization_id)]
    // An organization holds at most as much as stays free: if n organizations take their maximum, each leaves one part in n + 1. A
    // workspace holds at most half of that, so that it does not use up its organization's share.
    return organization + bytes <= left && 2 * (workspace + bytes) <= left
  }
  return {
    taken_bytes: () => taken,
    open(owner, request_bytes) {
      let own = CALL_BYTES + request_bytes
      if (!fits(owner, own)) return null
      add(owner, own)
      let is_open = true
      return {
        take(bytes) {
          // Memory acquired after the end would never be released.
          if (!is_open || !fits(owner, bytes)) throw new AgentFailure('crowded', 'There is no room for the answer')
          add(owner, bytes)
          own += bytes
        },
        nextTick() {
          last = last.then(nextTurn)
          return last.then(() => undefined)
        },
        [Symbol.dispose]() {
          is_open = false
          add(owner, -own)
          own = 0
        },
      }
    },
  }
}

/** For the cell's own calls, whose answers are short. */
export const UNLIMITED_BUDGET: BufferBudget = { take: () => undefined, nextTick: nextTurn, [Symbol.dispose]: () => undefined }

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
