import { LIMITS } from '../../../../contract/limits.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { startPoller, type Poller } from '../../../lib/poll.ts'
import { applyRemoteState, later, type PaymentDeps } from './effects.ts'
import { PaymentError } from './service.ts'
import {
  addInvoices,
  endCheckout,
  endEvent,
  isOpen,
  keepRemote,
  lookAtInvoice,
  takeCheckouts,
  takeEvent,
  takeInvoice,
  takeSubscriptions,
  writeInvoice,
  type RemoteInvoice,
} from './store.ts'

const LOOK_MS = 5000
const AT_ONCE = 100
const NOT_FOUND = 404
const { call_seconds_max, retry_seconds_min, retry_seconds_max } = LIMITS.payment
/** A claim lasts longer than all calls for one object may take, so no second process works on the object. */
const TAKEN_MS = 30 * call_seconds_max * 1000

/** All work is stored in rows, so a crash or an outage loses none. Several processes may run this worker. */
export function startPaymentSync(deps: PaymentDeps): Poller {
  return startPoller({
    every_ms: LOOK_MS,
    look: (stopped) => collectAll(deps, stopped),
    failed: (error) => deps.logger.warn({ err: error }, 'due payments could not be read'),
  })
}

export async function collectAll(deps: PaymentDeps, stopped: () => boolean = () => false): Promise<void> {
  await applyEvents(deps, stopped)
  await addInvoices(deps.db, deps.clock.now())
  await pushInvoices(deps, stopped)
  await lookAgain(deps, stopped)
}

async function applyEvents(deps: PaymentDeps, stopped: () => boolean): Promise<void> {
  const { db, clock } = deps
  while (!stopped()) {
    const event = await takeEvent(db, clock.now(), taken(clock.now()))
    if (event === undefined) return
    try {
      await applyRemoteState(deps, event).catch(unlessGone)
      await failpoint('payment.P2')
      await endEvent(db, event, { applied_at: clock.now(), last_error: null })
    } catch (error) {
      deps.logger.warn({ err: error, event_id: event.id, tries: event.tries }, 'an event of the payment service waits for its effect')
      await endEvent(db, event, { next_try_at: afterFailure(event.tries, clock.now()), last_error: textOf(error) })
    }
  }
}

async function pushInvoices(deps: PaymentDeps, stopped: () => boolean): Promise<void> {
  const { db, clock, logger } = deps
  while (!stopped()) {
    const there = await takeInvoice(db, clock.now(), taken(clock.now()))
    if (there === undefined) return
    const { number } = there.invoice
    try {
      await syncInvoice(deps, there)
    } catch (error) {
      logger.warn({ err: error, invoice: number, tries: there.tries }, 'an invoice waits for the payment service')
      await writeInvoice(db, there, { next_try_at: afterFailure(there.tries, clock.now()), last_error: textOf(error) })
    }
  }
}

async function syncInvoice(deps: PaymentDeps, there: RemoteInvoice): Promise<void> {
  const { db, clock, payment } = deps
  const { invoice, remote_id, pushed_at } = there
  if (invoice.state !== 'open') {
    if (remote_id !== null) await payment.settleInvoice(remote_id, invoice.state).catch(unlessGone)
    await writeInvoice(db, there, { settled_at: clock.now(), last_error: null })
    return
  }
  if (remote_id === null || pushed_at === null) return push(deps, there)
  await applyRemoteState(deps, { kind: 'invoice', object_id: remote_id })
  await writeInvoice(db, there, { next_try_at: later(clock.now()), tries: 0, last_error: null })
}

/** An operator may end the invoice during the push. The next pass then ends the remote copy, too. */
async function push(deps: PaymentDeps, there: RemoteInvoice): Promise<void> {
  const { db, clock, payment, logger } = deps
  const { remote_id, customer_id } = there
  const { id, number, currency, lines, total_minor } = there.invoice
  const pushed = { id, number, currency, lines, total_minor }
  const made = remote_id ?? (await payment.createInvoice(customer_id, pushed))
  if (remote_id === null) await keepRemote(db, id, made)
  const is_whole = await payment.completeInvoice(made, customer_id, pushed, () => isOpen(db, id))
  if (!is_whole) return lookAtInvoice(db, id, clock.now())
  await failpoint('payment.P3')
  if (await writeInvoice(db, there, { pushed_at: clock.now(), next_try_at: later(clock.now()), tries: 0, last_error: null })) return
  logger.info({ invoice: number }, 'an invoice ended here and was completed at the payment service; it is read again')
  await lookAtInvoice(db, id, clock.now())
}

/** Reads remote state without an event: events may be lost, and a process may die after a checkout. */
async function lookAgain(deps: PaymentDeps, stopped: () => boolean): Promise<void> {
  const { db, clock, logger } = deps
  const look = async (work: () => Promise<void>) =>
    stopped()
      ? undefined
      : work().catch((error: unknown) => logger.warn({ err: error }, 'the payment service could not be asked for a state'))
  const now = clock.now()
  for (const { id, session_id } of await takeCheckouts(db, now, taken(now), AT_ONCE))
    await look(() =>
      session_id === null ? endCheckout(db, id, 'expired') : applyRemoteState(deps, { kind: 'checkout', object_id: session_id }),
    )
  for (const object_id of await takeSubscriptions(db, now, later(now), AT_ONCE))
    await look(() => applyRemoteState(deps, { kind: 'subscription', object_id }))
}

const taken = (now: Date) => new Date(now.getTime() + TAKEN_MS)

/** Ignores that the payment service does not have the object: there is nothing to apply. */
function unlessGone(error: unknown): void {
  if (!(error instanceof PaymentError) || error.status !== NOT_FOUND) throw error
}

/** Retries never end, because invoices must be paid. */
function afterFailure(tries: number, now: Date): Date {
  const seconds = Math.min(retry_seconds_max, retry_seconds_min * 2 ** Math.min(tries - 1, 12))
  return new Date(now.getTime() + seconds * 1000)
}

function textOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 500)
}
