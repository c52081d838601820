import { closePeriods } from '../../core/money/billing/close.ts'
import { judgePayments } from '../../core/money/billing/standing.ts'
import { serviceOrigin } from '../../core/changes/audit.ts'
import { whileClockStable } from '../../lib/stable-clock.ts'
import { mailAlerts } from './spend/alert-mail.ts'
import { startPoller, type Poller } from '../../lib/poll.ts'
import type { CallDeps } from '../calls/deps.ts'

const TICK_MS = 15_000

type Clockwork = Pick<CallDeps, 'db' | 'clock' | 'ids' | 'logger'>

/** Closes billing periods. Several processes may run this worker. */
export function startMoneyClock(deps: Clockwork, mailed: () => void): Poller {
  const { clock, logger } = deps
  const closeSteadily = whileClockStable(clock, logger, 'closing of billing periods', () => close(deps))
  return startPoller({
    every_ms: TICK_MS,
    look: () => tick(deps, closeSteadily, mailed),
    failed: (error) => logger.warn({ err: error }, 'due billing work failed'),
  })
}

async function tick(deps: Clockwork, closeSteadily: () => Promise<void>, mailed: () => void): Promise<void> {
  const done = await Promise.allSettled([mail(deps, mailed), closeSteadily(), judge(deps)])
  for (const each of done) if (each.status === 'rejected') deps.logger.warn({ err: each.reason }, 'due billing work failed')
}

const byClock = ({ clock, ids }: Clockwork) => serviceOrigin('api', { ids, now: clock.now() })

async function mail({ db, ids, clock }: Clockwork, mailed: () => void): Promise<void> {
  if ((await mailAlerts(db, ids, clock.now())) > 0) mailed()
}

async function close(deps: Clockwork): Promise<void> {
  const { db, logger } = deps
  const { closed, invoices, failed } = await closePeriods(db, byClock(deps))
  if (closed > 0) logger.info({ closed, invoices }, 'billing periods were closed')
  for (const { organization_id, error } of failed) logger.error({ organization_id, err: error }, 'a billing period could not be closed')
}

async function judge(deps: Clockwork): Promise<void> {
  for (const organization_id of await judgePayments(deps.db, byClock(deps)))
    deps.logger.info({ organization_id }, 'the state of a bill changed whether starts are allowed')
}
