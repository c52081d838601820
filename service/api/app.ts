import type { DatabaseOptions } from '../db/options.ts'
import { checkSchema } from '../db/schema-version.ts'
import { systemClock } from '../lib/clock.ts'
import { createDiskReserve, NO_RESERVE } from '../lib/disk-reserve.ts'
import { createIds } from '../lib/ids.ts'
import { openLog } from '../lib/log.ts'
import { tickEvery } from '../lib/poll.ts'
import { processMetrics } from '../lib/process-metrics.ts'
import { whileClockStable } from '../lib/stable-clock.ts'
import { LIMITS } from '../../contract/limits.ts'
import { startChainWorker } from './records/audit/linker.ts'
import { dropExports } from './records/exports/store.ts'
import { deleteExpired } from './forget.ts'
import { forgetPayments } from './money/payment/store.ts'
import { logOverdue } from '../core/workspaces/under-way/overdue.ts'
import type { StripeConfig } from './money/payment/stripe.ts'
import { forgetMails } from './records/mail/store.ts'
import { openMetrics, startOps } from './ops.ts'
import { openApi } from './server.ts'
import { sweepUploads } from './templates/uploads/sweep.ts'

export interface ApiConfig {
  listen: { host: string; port: number }
  ops_listen: { host: string; port: number }
  base_url: string
  ports_url: string
  /** Absent: no origin may read answers. */
  cors_origins?: readonly string[]
  database: DatabaseOptions
  signing_keys_dir: string
  edge_requests_per_minute: number
  caller_requests_per_minute: number
  wrong_credentials_per_minute: number
  layered_opens: boolean
  file_first: boolean
  uploads_dir: string
  package_mirror: string
  registration: 'invitation' | 'open' | string[]
  mail: { smtp_url: string; from: string; directory: string }
  stripe: StripeConfig | null
  log_level: 'debug' | 'info' | 'warn' | 'error'
  /** Absent: no call is refused for disk space. */
  disk?: { folder: string; reserve_bytes: number }
}

const MAIL_MS = LIMITS.mail.kept_days * 24 * 3600 * 1000
const PAYMENTS_MS = LIMITS.payment.event_kept_days * 24 * 3600 * 1000
const EXPORTS_TOLD_MS = LIMITS.export.told_days * 24 * 3600 * 1000
const FORGET_MS = 10 * 60 * 1000

export async function startApi(config: ApiConfig): Promise<{ close(): Promise<void> }> {
  const log = openLog({ level: config.log_level, base: { service: 'api' } })
  const { logger } = log
  await checkSchema(config.database)
  const metrics = openMetrics()
  const clock = systemClock
  const reserve = config.disk === undefined ? NO_RESERVE : createDiskReserve({ ...config.disk, clock })
  processMetrics(metrics.registry, reserve, log)
  const api = await openApi({
    ...config,
    clock,
    ids: createIds(clock),
    logger,
    reserve,
    ends_organizations: true,
    makes_exports: true,
    collects_payments: true,
    observe: metrics.observe,
  })
  const address = await api.server.listen(config.listen)
  const linker = startChainWorker({ db: api.deps.db, logger })
  const ops = await startOps({ listen: config.ops_listen, registry: metrics.registry, check: api.check })
  const told_overdue = new Set<string>()
  const forget = whileClockStable(clock, logger, 'removal of what is old', async () => {
    const now = clock.now()
    await Promise.all([
      deleteExpired(api.deps.db, now),
      forgetMails(api.deps.db, new Date(now.getTime() - MAIL_MS)),
      forgetPayments(api.deps.db, new Date(now.getTime() - PAYMENTS_MS)),
      dropExports(api.deps.db, now, new Date(now.getTime() - EXPORTS_TOLD_MS)),
      sweepUploads(api.deps.db, api.deps.uploads_dir, now),
      logOverdue({ db: api.deps.db, clock, log: logger }, { by: 'api', cell_id: null }, told_overdue),
    ])
  })
  const closing = new AbortController()
  tickEvery(FORGET_MS, forget, (error) => logger.warn({ err: error }, 'expired rows were not removed'), closing.signal)
  logger.info({ address, ops: ops.address }, 'the application API serves')
  return {
    async close() {
      closing.abort()
      await linker.close()
      await api.close()
      await ops.close()
    },
  }
}
