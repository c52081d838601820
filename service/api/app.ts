import pino from 'pino'
import type { DatabaseOptions } from '../db/options.ts'
import { checkSchema } from '../db/schema-version.ts'
import { systemClock } from '../lib/clock.ts'
import { createIds } from '../lib/ids.ts'
import { forgetOld } from './forget.ts'
import { openMetrics, startOps } from './ops.ts'
import { openApi } from './server.ts'

export interface ApiConfig {
  listen: { host: string; port: number }
  ops_listen: { host: string; port: number }
  base_url: string
  ports_url: string
  database: DatabaseOptions
  signing_keys_dir: string
  edge_requests_per_minute: number
  caller_requests_per_minute: number
  wrong_credentials_per_minute: number
  layered_opens: boolean
  file_first: boolean
  log_level: 'debug' | 'info' | 'warn' | 'error'
}

const FORGET_MS = 10 * 60 * 1000

/** The api process: serves until it is closed. */
export async function startApi(config: ApiConfig): Promise<{ close(): Promise<void> }> {
  const logger = pino({ level: config.log_level, base: { service: 'api' } })
  await checkSchema(config.database)
  const metrics = openMetrics()
  const clock = systemClock
  const api = await openApi({ ...config, clock, ids: createIds(clock), logger, observe: metrics.observe })
  const address = await api.server.listen(config.listen)
  const ops = await startOps({ listen: config.ops_listen, registry: metrics.registry, check: api.check })
  const forgetting = setInterval(() => {
    forgetOld(api.deps.db, clock.now()).catch((error: unknown) => logger.warn({ err: error }, 'what is old was not removed'))
  }, FORGET_MS)
  forgetting.unref()
  logger.info({ address, ops: ops.address }, 'the application API serves')
  return {
    async close() {
      clearInterval(forgetting)
      await api.close()
      await ops.close()
    },
  }
}
