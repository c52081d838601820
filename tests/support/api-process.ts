import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { World } from '../api/support.ts'
import type { MailConfig } from '../../service/api/mail/transports.ts'
import type { StripeConfig } from '../../service/api/payment/stripe.ts'
import type { FailpointName } from '../../service/lib/failpoints.ts'

const MAIN = join(import.meta.dirname, '../../service/main.ts')

/** An api as the supervisor starts it, on the database of a test. */
export interface ApiProcess extends AsyncDisposable {
  base: string
  /** Of its end: the signal that it ended by. */
  ended: Promise<NodeJS.Signals | null>
  kill(): Promise<void>
}

interface Options {
  /** Without: into a folder. */
  mail?: MailConfig
  stripe?: StripeConfig
  /** Where it is killed as by `kill -9`. */
  killed_at?: FailpointName
}

export async function startApiProcess(w: World, { mail, stripe, killed_at }: Options): Promise<ApiProcess> {
  const config = join(w.keys_dir, 'api.json')
  const anywhere = { host: '127.0.0.1', port: 0 }
  const of = {
    ...{ listen: anywhere, ops_listen: anywhere, database_url: w.database.url, signing_keys_dir: w.keys_dir },
    ...{ mail: mail ?? { smtp_url: '', from: 'berth@localhost', directory: join(w.keys_dir, 'mail') }, stripe: stripe ?? null },
  }
  writeFileSync(config, JSON.stringify({ ...CONFIG, ...of }))
  const env = { ...process.env, BERTH_FAILPOINT: killed_at === undefined ? '' : `${killed_at}:kill9` }
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, 'api', '--config', config, '--enable-failpoints'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit').then(([, signal]) => signal as NodeJS.Signals | null)
  const base = Promise.withResolvers<string>()
  createInterface(child.stdout).on('line', (line) => {
    const { msg, address } = JSON.parse(line) as { msg?: string; address?: string }
    if (msg === SERVES && address !== undefined) base.resolve(address)
  })
  void ended.then((signal) => base.reject(new Error(`the api ended before it served: ${signal ?? 'an exit'}`)))
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  return { base: await base.promise, ended, kill, [Symbol.asyncDispose]: kill }
}

const SERVES = 'the application API serves'

/** What the settings of an api say that a test has no wish for. */
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
  ports_url: 'http://ports.test',
  log_level: 'info',
  registration: 'open',
}
