import type { Listener } from '../../db/listen.ts'
import type { FoundCredential } from './store.ts'

export type ReadCredentials = (digests: Buffer[]) => Promise<(FoundCredential & { sha256: Buffer })[]>

export interface CredentialCache {
  /** null: the credential does not exist. A result is not revoked, as far as this process was notified. */
  find(sha256: Buffer): Promise<FoundCredential | null>
  close(): void
}

const KNOWN_MAX = 20_000
const DIGESTS_MAX = 1000

interface Waiting {
  sha256: Buffer
  answer: PromiseWithResolvers<FoundCredential | null>
}

/** Runs one query at a time, which limits the cost of guesses. A valid credential is cached until a change of its port is announced. */
export function openCredentialCache(readAll: ReadCredentials, listener: Pick<Listener, 'on'>, known_max = KNOWN_MAX): CredentialCache {
  const known = new Map<string, FoundCredential>() // least recently used first
  let waiting: Waiting[] = []
  let reading = false
  /** Number of announced changes. A query during which it grows may be outdated, and is repeated. */
  let changes = 0

  const remember = (key: string, found: FoundCredential) => {
    known.delete(key)
    known.set(key, found)
    const [oldest] = known.keys()
    if (known.size > known_max && oldest !== undefined) known.delete(oldest)
  }
  const readNext = async (): Promise<void> => {
    const batch = waiting.slice(0, DIGESTS_MAX)
    const heard = changes
    const read = await readAll(batch.map(({ sha256 }) => sha256))
    const rows = new Map(read.map(({ sha256, ...found }) => [sha256.toString('hex'), found]))
    if (heard !== changes) return // read again
    waiting = waiting.slice(batch.length)
    for (const { sha256, answer } of batch) {
      const key = sha256.toString('hex')
      const found = rows.get(key) ?? null
      if (found !== null) remember(key, found)
      answer.resolve(found)
    }
  }
  const read = async () => {
    if (reading) return
    reading = true
    try {
      while (waiting.length > 0) await readNext()
    } catch (error) {
      for (const { answer } of waiting) answer.reject(error)
      waiting = []
    } finally {
      reading = false
    }
  }
  const forget = (port_id: string | null) => {
    changes += 1
    for (const [key, found] of known) if (port_id === null || found.port_id === port_id) known.delete(key)
  }
  const unsubscribe = listener.on('berth_port', forget)
  return {
    async find(sha256) {
      const key = sha256.toString('hex')
      const found = known.get(key)
      if (found !== undefined) {
        remember(key, found)
        return found
      }
      const answer = Promise.withResolvers<FoundCredential | null>()
      waiting.push({ sha256, answer })
      void read()
      return answer.promise
    },
    close: unsubscribe,
  }
}
