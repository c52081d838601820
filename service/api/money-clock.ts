import { closePeriods } from '../core/billing/close.ts'
import { judgePayments } from '../core/billing/standing.ts'
import { byService } from '../core/changes/audit.ts'
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

async function tick({ db, clock, ids, logger }: Clockwork, mailed: () => void): Promise<void> {
  const now = clock.now()
  if ((await mailAlerts(db, ids, now)) > 0) mailed()
  const by = byService('api', { ids, now })
  const { closed, invoices } = await closePeriods(db, by)
  if (closed > 0) logger.info({ closed, invoices }, 'billing periods were closed')
  for (const organization_id of await judgePayments(db, by))
    logger.info({ organization_id }, 'what is to be paid says something else of starts')
}
