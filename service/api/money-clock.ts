import { closePeriods } from '../core/billing/close.ts'
import { judgePayments } from '../core/billing/standing.ts'
import { byService, type By } from '../core/changes/audit.ts'
import { mailAlerts } from './spend/alert-mail.ts'
import type { ApiDeps } from './deps.ts'
import { lookRegularly, type Looking } from './looking.ts'

const TICK_MS = 15_000

type Clockwork = Pick<ApiDeps, 'db' | 'clock' | 'ids' | 'logger'>

/** What nobody asks for: mails of thresholds that are reached, closed billing periods, invoices that become due. Any number of processes may do it at once. */
export function startMoneyClock(deps: Clockwork, mailed: () => void): Looking {
  return lookRegularly({
    every_ms: TICK_MS,
    look: () => tick(deps, mailed),
    failed: (error) => deps.logger.warn({ err: error }, 'what is due for organizations was not done'),
  })
}

/** Each of them is done though another fails: what is owed to one does not wait for what is wrong with another. */
async function tick(deps: Clockwork, mailed: () => void): Promise<void> {
  const { clock, ids, logger } = deps
  const now = clock.now()
  const by = byService('api', { ids, now })
  const done = await Promise.allSettled([mail(deps, now, mailed), close(deps, by), judge(deps, by)])
  for (const each of done) if (each.status === 'rejected') logger.warn({ err: each.reason }, 'what is due for organizations was not done')
}

async function mail({ db, ids }: Clockwork, now: Date, mailed: () => void): Promise<void> {
  if ((await mailAlerts(db, ids, now)) > 0) mailed()
}

async function close({ db, logger }: Clockwork, by: By): Promise<void> {
  const { closed, invoices, failed } = await closePeriods(db, by)
  if (closed > 0) logger.info({ closed, invoices }, 'billing periods were closed')
  for (const { organization_id, error } of failed) logger.error({ organization_id, err: error }, 'a billing period could not be closed')
}

async function judge({ db, logger }: Clockwork, by: By): Promise<void> {
  for (const organization_id of await judgePayments(db, by))
    logger.info({ organization_id }, 'what is to be paid says something else of starts')
}
