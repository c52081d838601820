import { LIMITS } from '../../../../contract/limits.ts'
import { sourceOf } from '../../../http/source.ts'
import { fail } from '../../../lib/fail.ts'

/**
 * Bounds how many signatures of tokens are checked at once, and lets addresses take turns: whoever sends forged tokens waits behind his
 * own. A token whose verdict is known does not come here.
 */
export interface Signatures {
  /**
   * Calls `check` when it is this address's turn. Calls with one token share one check.
   * @param address of the other end of the connection; behind a proxy all have the proxy's, and wait in one line.
   * @throws rate_limited where too many wait already.
   */
  check(token: string, address: string, check: () => Promise<boolean>): Promise<boolean>
  waiting(): number
}

export interface SignatureLimits {
  at_once: number
  waiting_per_address: number
  waiting: number
}

interface Waiter {
  resolve(): void
  reject(error: unknown): void
}

/** Two leave half of node's thread pool to files and names. */
const LIMITS_OF_A_GATEWAY: SignatureLimits = {
  at_once: LIMITS.credential.signatures_at_once_max,
  waiting_per_address: LIMITS.credential.signatures_waiting_per_address_max,
  waiting: LIMITS.credential.signatures_waiting_max,
}

export function createSignatures(limits = LIMITS_OF_A_GATEWAY): Signatures {
  const lines = new Map<string, Waiter[]>() // whose turn is next comes first
  const checks = new Map<string, Promise<boolean>>()
  let checking = 0
  let waiting = 0

  const stand = (source: string): Promise<void> => {
    const line = lines.get(source) ?? []
    if (line.length >= limits.waiting_per_address) throw tooMany()
    if (waiting >= limits.waiting) makeRoom(line)
    lines.set(source, line)
    waiting += 1
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    line.push({ resolve, reject })
    return promise
  }
  /** The last of the longest line is sent away, so that however many addresses take all they can, the next still finds a place. */
  const makeRoom = (line: Waiter[]): void => {
    const [longest = line] = [...lines.values()].sort((one, other) => other.length - one.length)
    if (longest.length <= line.length + 1) throw tooMany()
    longest.pop()?.reject(tooMany())
    waiting -= 1
  }
  const callNext = (): void => {
    const [first] = lines
    if (first === undefined) {
      checking -= 1
      return
    }
    const [source, line] = first
    lines.delete(source)
    const next = line.shift()
    if (line.length > 0) lines.set(source, line)
    waiting -= 1
    next?.resolve()
  }
  const inTurn = async (source: string, check: () => Promise<boolean>): Promise<boolean> => {
    if (checking < limits.at_once) checking += 1
    else await stand(source) // whoever ends hands the turn on; who is sent away has none
    try {
      return await check()
    } finally {
      callNext()
    }
  }
  return {
    check(token, address, check) {
      const known = checks.get(token)
      if (known !== undefined) return known
      const checked = inTurn(sourceOf(address), check).finally(() => checks.delete(token))
      checks.set(token, checked)
      return checked
    },
    waiting: () => waiting,
  }
}

function tooMany() {
  return fail('rate_limited', null, 'Too many tokens wait to be checked', {
    retry_after_seconds: LIMITS.tool_call.resource_limit_retry_seconds,
  })
}
