import { LIMITS } from '../../../contract/limits.ts'
import { AgentTrouble } from './agent-trouble.ts'

/** Whose memory it is that a call takes. */
export interface RoomOwner {
  id: string
  organization_id: string
}

/** The memory of this process that calls fill with what agents and callers send: a bound for all of them together. */
export interface AnswerRooms {
  /**
   * Room for one call, until it is disposed of.
   * @param bytes of the request: they are held from the beginning.
   * @returns null when there is no room for it.
   */
  open(owner: RoomOwner, bytes: number): AnswerRoom | null
  taken_bytes(): number
}

export interface AnswerRoom extends Disposable {
  /** Takes more. Throws AgentTrouble when the owner has had its share: nothing of the answer is kept then. */
  take(bytes: number): void
  /** The next turn of the loop in which a large answer may be worked on; there is one a turn. */
  turn(): Promise<void>
}

/** What every call holds: the records of its own and a short answer, which needs no more. */
export const CALL_BYTES = 16 << 10

export function createAnswerRooms(bytes_max: number = LIMITS.tool_call.answer_bytes_per_cell_max): AnswerRooms {
  const held = new Map<string, number>() // by organization and by workspace: their ids never meet
  let taken = 0
  let last: Promise<unknown> = Promise.resolve()
  const add = (owner: RoomOwner, bytes: number) => {
    taken += bytes
    for (const name of [owner.id, owner.organization_id]) {
      const sum = (held.get(name) ?? 0) + bytes
      if (sum === 0) held.delete(name)
      else held.set(name, sum)
    }
  }
  const fits = (owner: RoomOwner, bytes: number) => {
    const left = bytes_max - taken - bytes
    const [workspace = 0, organization = 0] = [held.get(owner.id), held.get(owner.organization_id)]
    // Nobody gets more than what stays free: of n who take all they can, each leaves one part in n + 1 to whoever comes next.
    // A workspace gets half of that, so that one does not take all of its organization's.
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
          // What comes after the call has ended would never be given back.
          if (!is_open || !fits(owner, bytes)) throw new AgentTrouble('crowded', 'There is no room for the answer')
          add(owner, bytes)
          own += bytes
        },
        turn() {
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

/** Of what the cell asks by itself, which is short. */
export const UNCOUNTED: AnswerRoom = { take: () => undefined, turn: nextTurn, [Symbol.dispose]: () => undefined }

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
