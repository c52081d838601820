import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import { answerText, askText, parseAnswer, parseAsk, type RevocationScope } from './messages.ts'
import { notifyConfirmed } from './store.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import type { Clock } from '../../lib/clock.ts'
import { askEnforcers } from './enforcers-store.ts'

export interface Revocations {
  /**
   * Waits until every enforcing process has applied all changes committed before this call. Notifications arrive in commit order, so a
   * process that answers has applied them. Resolves after the time limit too: by then the change holds without an answer
   * (`revocation_held_seconds_max`).
   */
  awaitConfirmed(scope: RevocationScope, signal: AbortSignal): Promise<void>
  /** Resolves every waiting call at once: the process is about to exit. */
  close(): void
}

interface Waiter {
  scope: RevocationScope
  /** Lowest question number whose answers count. */
  from: number
  answered: Set<string>
  /** Processes that must answer; null: not known yet. */
  expected: Set<string> | null
  done(): void
}

const ASK_AGAIN_MS = 1000

interface Context {
  db: Db
  listener: Listener
  clock: Clock
  logger: Logger
  listener_name: string
  /** Longest wait of a call. */
  seconds: number
}

export function openRevocations({ db, listener, clock, logger, listener_name, seconds }: Context): Revocations {
  const asker = randomUUID()
  const waiters = new Set<Waiter>()
  let last = 0
  let closed = false

  const look = (waiter: Waiter) => {
    const { expected, answered } = waiter
    if (expected !== null && [...expected].every((by) => answered.has(by))) waiter.done()
  }
  const ask = async (scope: RevocationScope, number: number, those: Iterable<Waiter>) => {
    const seen_since = new Date(clock.now().getTime() - LIMITS.credential.revocation_held_seconds_max * 1000)
    const expected = new Set(await askEnforcers(db, { scope, payload: askText({ asker, number, scope }), seen_since, listener_name }))
    for (const waiter of those) {
      waiter.expected = expected
      look(waiter)
    }
  }
  // One question serves all waiters of a scope: it follows all their commits. Scopes are asked one after another.
  const askAgain = async () => {
    for (const scope of new Set([...waiters].map((waiter) => waiter.scope))) {
      last += 1
      const those = [...waiters].filter((waiter) => waiter.scope === scope)
      await ask(scope, last, those)
    }
  }
  let asking = false
  const again = setInterval(() => {
    if (asking || waiters.size === 0) return
    asking = true
    askAgain()
      .catch((error: unknown) => logger.warn({ err: error }, 'the enforcers of a revocation could not be asked'))
      .finally(() => (asking = false))
  }, ASK_AGAIN_MS)
  again.unref()

  const stop_hearing = listener.on('berth_revoked', (text) => {
    const answer = text === null ? null : parseAnswer(text)
    if (answer === null || answer.asker !== asker) return
    for (const waiter of waiters) {
      if (waiter.scope !== answer.scope || answer.number < waiter.from) continue
      waiter.answered.add(answer.by)
      look(waiter)
    }
  })
  // The listener has already applied earlier notifications about keys: the token cache was cleared as they arrived.
  const stop_answering = listener.on('berth_revocation', (text) => {
    const asked = text === null ? null : parseAsk(text)
    const pid = listener.pid()
    if (asked === null || pid === null) return
    notifyConfirmed(db, answerText({ ...asked, by: `api:${pid}` })).catch(() => undefined) // the api asks again
  })
  return {
    async awaitConfirmed(scope, signal) {
      if (signal.aborted || closed) return
      const { promise, resolve } = Promise.withResolvers<void>()
      last += 1
      const waiter: Waiter = { scope, from: last, answered: new Set(), expected: null, done: resolve }
      const deadline = setTimeout(resolve, seconds * 1000)
      signal.addEventListener('abort', waiter.done, { once: true })
      waiters.add(waiter)
      try {
        await ask(scope, last, [waiter]).catch(() => undefined) // asked again in a second
        await promise
      } finally {
        clearTimeout(deadline)
        signal.removeEventListener('abort', waiter.done)
        waiters.delete(waiter)
      }
    },
    close() {
      closed = true
      clearInterval(again)
      stop_hearing()
      stop_answering()
      for (const waiter of waiters) waiter.done()
    },
  }
}
