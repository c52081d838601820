import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import { answerText, askText, parseAnswer, parseAsk, type RevocationScope } from './messages.ts'
import { notifyConfirmed } from './store.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import type { Clock } from '../../lib/clock.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'
import { askEnforcers } from './enforcers-store.ts'

export interface Revocations {
  /**
   * Waits until every enforcing process has applied all changes committed before this call. Notifications arrive in commit order, so a
   * process that answers has applied them.
   * Resolves after the time limit too: after `revocation_held_seconds_max` the change is in force without an answer.
   */
  awaitConfirmed(scope: RevocationScope, signal: AbortSignal): Promise<void>
  /** Resolves every waiting call at once, because the process is about to exit. */
  close(): void
}

interface Waiter {
  scope: RevocationScope
  /** Lowest question number whose answers count. */
  from: number
  answered: Set<string>
  /** Processes that must answer; null: not known yet. */
  expected: Set<string> | null
  done: () => void
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

interface RevocationsState extends Context {
  /** Name of this process in its questions. */
  asker: string
  waiters: Set<Waiter>
  /** Number of the last question. */
  last: number
  closing: AbortController
}

export function openRevocations(context: Context): Revocations {
  const { listener, logger } = context
  const closing = new AbortController()
  const state: RevocationsState = { ...context, asker: randomUUID(), waiters: new Set(), last: 0, closing }
  const unasked = (error: unknown) => logger.warn({ err: error }, 'the enforcers of a revocation could not be asked')
  const askAgain = oneAtATime(() => askForAll(state))
  tickEvery(ASK_AGAIN_MS, askAgain, unasked, closing.signal)
  const stop_hearing = listener.on('berth_revoked', (text) => hearAnswer(state, text))
  // The answer needs no wait, because earlier notifications about keys have cleared the token cache as they arrived.
  const stop_answering = listener.on('berth_revocation', (text) => answerQuestion(state, text))
  return {
    awaitConfirmed: (scope, signal) => awaitConfirmed(state, scope, signal),
    close() {
      closing.abort()
      stop_hearing()
      stop_answering()
      for (const waiter of state.waiters) waiter.done()
    },
  }
}

async function awaitConfirmed(state: RevocationsState, scope: RevocationScope, signal: AbortSignal): Promise<void> {
  if (signal.aborted || state.closing.signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  state.last += 1
  const waiter: Waiter = { scope, from: state.last, answered: new Set(), expected: null, done: resolve }
  const deadline = setTimeout(resolve, state.seconds * 1000)
  signal.addEventListener('abort', waiter.done, { once: true })
  state.waiters.add(waiter)
  try {
    await ask(state, scope, state.last, [waiter]).catch(() => undefined) // a failed question is repeated in a second
    await promise
  } finally {
    clearTimeout(deadline)
    signal.removeEventListener('abort', waiter.done)
    state.waiters.delete(waiter)
  }
}

async function ask(
  { db, clock, asker, listener_name }: RevocationsState,
  scope: RevocationScope,
  number: number,
  those: Iterable<Waiter>,
): Promise<void> {
  const seen_since = new Date(clock.now().getTime() - LIMITS.credential.revocation_held_seconds_max * 1000)
  const expected = new Set(await askEnforcers(db, { scope, payload: askText({ asker, number, scope }), seen_since, listener_name }))
  for (const waiter of those) {
    waiter.expected = expected
    endIfConfirmed(waiter)
  }
}

function endIfConfirmed({ expected, answered, done }: Waiter): void {
  if (expected !== null && [...expected].every((by) => answered.has(by))) done()
}

/** Asks once for all waiters of a scope: the question comes after all their commits. Scopes are asked one after another. */
async function askForAll(state: RevocationsState): Promise<void> {
  for (const scope of new Set([...state.waiters].map((waiter) => waiter.scope))) {
    state.last += 1
    const those = [...state.waiters].filter((waiter) => waiter.scope === scope)
    await ask(state, scope, state.last, those)
  }
}

function hearAnswer({ asker, waiters }: RevocationsState, text: string | null): void {
  const answer = text === null ? null : parseAnswer(text)
  if (answer === null || answer.asker !== asker) return
  for (const waiter of waiters) {
    if (waiter.scope !== answer.scope || answer.number < waiter.from) continue
    waiter.answered.add(answer.by)
    endIfConfirmed(waiter)
  }
}

/** Answers a question of any api process, including this one. */
function answerQuestion({ db, listener }: RevocationsState, text: string | null): void {
  const asked = text === null ? null : parseAsk(text)
  const pid = listener.pid()
  if (asked === null || pid === null) return
  notifyConfirmed(db, answerText({ ...asked, by: `api:${pid}` })).catch(() => undefined) // not retried here: the asking api process asks again
}
