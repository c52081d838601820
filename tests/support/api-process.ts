import { join } from 'node:path'
import type { World } from '../api/support.ts'
import type { MailConfig } from '../../service/api/records/mail/transports.ts'
import type { StripeConfig } from '../../service/api/money/payment/stripe.ts'
import type { FailpointName } from '../../service/lib/failpoints.ts'
import { startMainProcess, type MainProcess } from './main-process.ts'

export type ApiProcess = MainProcess

interface Options {
  /** Default: mail is written to a folder. */
  mail?: MailConfig
  stripe?: StripeConfig
  killed_at?: FailpointName
}

export async function startApiProcess(w: World, { mail, stripe, killed_at }: Options): Promise<ApiProcess> {
  const anywhere = { host: '127.0.0.1', port: 0 }
  const of = {
    ...{ listen: anywhere, ops_listen: anywhere, database_url: w.database.url, signing_keys_dir: w.keys_dir },
    ...{ mail: mail ?? { smtp_url: '', from: 'berth@localhost', directory: join(w.keys_dir, 'mail') }, stripe: stripe ?? null },
  }
  const env = { BERTH_FAILPOINT: killed_at === undefined ? '' : `${killed_at}:kill9` }
  return startMainProcess('api', { ...CONFIG, ...of }, { config_path: join(w.keys_dir, 'api.json'), env })
}

export const API_BOUNDS = {
  edge_requests_per_minute: 0,
  caller_requests_per_minute: 0,
  wrong_credentials_per_minute: 0,
  layered_opens: true,
  file_first: false,
  uploads_dir: '',
  package_mirror: '',
}

const CONFIG = {
  ...API_BOUNDS,
  instance: '0000',
  base_url: 'http://api.test',
  cell_endpoint: 'http://cell.test',
  cors_origins: [],
  disk: { folder: '/', reserve_bytes: 0 },
  ports_url: 'http://ports.test',
  log_level: 'info',
  registration: 'open',
}
