import type { Logger } from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import { describe } from '../../contract/openapi.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { openStore } from '../db/reader.ts'
import type { DatabaseOptions } from '../db/options.ts'
import { API_CHANNELS, openListener } from '../db/listen.ts'
import { openPersonSecrets } from '../core/people/person-secrets.ts'
import { listenerOf, type RevocationScope } from '../core/revocations/messages.ts'
import { openKeyRings } from '../core/keys/ring/ring.ts'
import { createBuckets } from '../http/buckets.ts'
import { createEdge } from '../http/edge.ts'
import { createServer, type Observation, type ServerHandle } from '../http/pipeline.ts'
import type { Principal } from '../http/call.ts'
import type { Clock } from '../lib/clock.ts'
import { NO_RESERVE, type DiskReserve } from '../lib/disk-reserve.ts'
import type { Ids } from '../lib/ids.ts'
import { authenticate } from './access/auth/authenticate.ts'
import { roleOf } from './role.ts'
import { createCallerRate } from './access/auth/caller-rate.ts'
import { createAuthFailureLimiter, type AuthFailureLimiter } from './access/auth/guesses.ts'
import { openPasswords } from './access/auth/passwords.ts'
import type { PeopleDeps } from './access/auth/people.ts'
import { createSignInLimiter, type SignInLimits } from './access/auth/sign-in-bounds.ts'
import { openApiKeyCache } from './access/auth/verdicts.ts'
import type { ApiDeps } from './deps.ts'
import { createWaitPermits, type WaitPermit } from './calls/held-places.ts'
import { startExportWorker } from './records/exports/maker.ts'
import { idempotency } from './calls/idempotency/replay.ts'
import { startSender } from './records/mail/sender.ts'
import { openTransport, type MailConfig } from './records/mail/transports.ts'
import { startDeletionWorker } from './lifecycle/organizations/ender.ts'
import { refuseGrowth } from './calls/growth.ts'
import { startPaymentSync } from './money/payment/collector.ts'
import type { StripeConfig } from './money/payment/stripe.ts'
import { startMoneyClock } from './money/clock.ts'
import { openWaits } from './workspaces/operations/waits.ts'
import { openRevocations } from '../core/revocations/revocations.ts'
import { ANSWERS, API_ROUTES } from './routes.ts'
import { siteFiles } from './site/site.ts'
import { ask, newestIds } from './calls/store.ts'
import { openSigner } from './workspaces/tool-tokens/signer.ts'
import { createTenantLimit, tenantLimitOptions } from './calls/turns.ts'
import { createChangeRate } from './calls/change-rate.ts'
import { createPartPermits } from './templates/uploads/places.ts'
import { createLookups } from './templates/packages/lookup.ts'
import { createPackageIndex } from './templates/packages/package-index.ts'
import { openCells } from './workspaces/cells.ts'

export interface ApiOptions {
  database: DatabaseOptions
  /** Folder of private keys, accessible only to this process's user. All api processes share it. */
  signing_keys_dir: string
  base_url: string
  ports_url: string
  /** Origins whose pages may read answers; absent: none. */
  cors_origins?: readonly string[]
  /** All callers together; 0: no limit. */
  edge_requests_per_minute?: number
  /** Per API key or person; 0: no limit. This and the next three default to `contract/limits.ts`. */
  caller_requests_per_minute?: number
  /** Invalid credentials per address; 0: no limit. */
  wrong_credentials_per_minute?: number
  /** Stored refusals per API key or person. */
  kept_refusals_per_hour?: number
  changes_per_day?: number
  /** Default: true. */
  layered_opens?: boolean
  /** Default: false. */
  file_first?: boolean
  /** Registration without an invitation; absent: none. */
  registration?: PeopleDeps['registration']
  /** Default: `contract/limits.ts`. */
  sign_in_limits?: SignInLimits
  /** Transport of mail; absent: mail waits. */
  mail?: MailConfig
  /** Payment service that collects invoices; absent: the operator records payments. */
  stripe?: StripeConfig | null
  /** Whether this process syncs with the payment service; absent: no. */
  collects_payments?: boolean
  /** Whether this process deletes ending organizations; absent: no. */
  ends_organizations?: boolean
  /** Whether this process makes exports; absent: no. */
  makes_exports?: boolean
  /** Folder of uploads; absent or empty: uploads are not kept. */
  uploads_dir?: string
  /** Free space that PostgreSQL's disk must keep; absent: no call is refused for disk space. */
  reserve?: DiskReserve
  /** Mirror of Debian packages; absent or empty: none. */
  package_mirror?: string
  /** Longest wait of a delete until its cell has started it. Tests without a cell shorten it. */
  delete_told_seconds?: number
  /** Longest wait of a revocation for the processes that enforce it. */
  revocation_held_seconds?: number
  clock: Clock
  ids: Ids
  logger: Logger
  validate_answers?: boolean
  observe?(seen: Observation): void
}

export interface Api {
  server: ServerHandle
  deps: ApiDeps
  /** @throws while the database does not answer */
  check(): Promise<void>
  close(): Promise<void>
}

/** Debian's own mirror is omitted, because every base uses it by default. */
function otherMirror(mirror = ''): string | null {
  return mirror === '' || new URL(mirror).hostname === 'deb.debian.org' ? null : mirror
}

type Sender = ReturnType<typeof startSender> | undefined
type Foundation = Awaited<ReturnType<typeof openFoundation>>
/** Dependencies of the workers. The omitted fields of ApiDeps wake the workers. */
type WorkerDeps = Omit<ApiDeps, 'enders' | 'exports' | 'payments'>

/** Opens the application API without listening. */
export async function openApi(options: ApiOptions): Promise<Api> {
  const foundation = await openFoundation(options)
  const sender = senderOf(options, foundation)
  const worker_deps = await workerDepsOf(options, foundation, sender)
  const workers = startWorkers(options, worker_deps)
  const deps: ApiDeps = {
    ...worker_deps,
    enders: { poke: () => workers.ender?.poke() },
    exports: { poke: () => workers.maker?.poke() },
    payments: { poke: () => workers.collector?.poke() },
  }
  const money = startMoneyClock(deps, () => sender?.poke())
  const server = serverOf(options, foundation, deps)
  const { store, listener, rings, verdicts, waits, revocations } = foundation
  return {
    server,
    deps,
    async check() {
      await ask(store.reads)
      if (listener.lost_ms() > 0) throw new Error('the listener has lost the database')
    },
    async close() {
      const drained = server.close()
      waits.close() // ends waiting calls, so that the server can close
      revocations.close()
      await drained
      await money.close()
      await sender?.close()
      await workers.ender?.close()
      await workers.maker?.close()
      await workers.collector?.close()
      deps.packages?.close()
      verdicts.close()
      deps.signer.close()
      rings.close()
      await Promise.all([listener.close(), store.close()])
    },
  }
}

/** Opens the parts that read the database and receive its notifications. */
async function openFoundation(options: ApiOptions) {
  const { clock, ids, logger } = options
  const store = openStore(options.database)
  const { db, reads } = store
  const listener_name = listenerOf(options.database.application_name)
  const listener = await openListener({ ...options.database, application_name: listener_name }, API_CHANNELS)
  for (const id of await newestIds(reads)) ids.seen(id) // new ids must sort after existing ones, even after the clock was set back
  const rings = await openKeyRings({ directory: options.signing_keys_dir, db, listener, clock, logger })
  const verdicts = openApiKeyCache(listener)
  const waits = openWaits(reads, listener)
  const held_seconds = options.revocation_held_seconds ?? LIMITS.credential.revocation_held_seconds_max
  const revocations = openRevocations({ db, listener, clock, logger, listener_name, seconds: held_seconds })
  const secrets = await openPersonSecrets(options.signing_keys_dir)
  return { store, listener, rings, verdicts, waits, revocations, secrets }
}

function senderOf({ mail, clock, logger, base_url }: ApiOptions, { store: { db }, secrets }: Foundation): Sender {
  return mail && startSender({ db, clock, logger, secrets, transport: openTransport(mail), base_url })
}

async function workerDepsOf(options: ApiOptions, foundation: Foundation, sender: Sender): Promise<WorkerDeps> {
  const { clock, ids, logger, base_url } = options
  const { store, listener, rings, waits, revocations, secrets } = foundation
  const { db, reads } = store
  const payment = options.stripe ? (await import('./money/payment/stripe.ts')).openStripe(options.stripe) : null
  let description: Buffer | undefined
  return {
    db,
    reads,
    clock,
    ids,
    waits,
    revocations,
    cells: openCells(clock),
    turns: createTenantLimit(tenantLimitOptions(options.database.connections_max)),
    change_rate: createChangeRate(options.changes_per_day ?? LIMITS.caller.changes_per_day, clock),
    signer: await openSigner({ directory: options.signing_keys_dir, db, listener, clock, logger }),
    layered_opens: options.layered_opens ?? true,
    file_first: options.file_first ?? false,
    delete_told_seconds: options.delete_told_seconds ?? LIMITS.workspace.delete_told_seconds_max,
    cursor_keys: rings.cursor,
    base_url,
    ports_url: options.ports_url,
    reserve: options.reserve ?? NO_RESERVE,
    uploads_dir: options.uploads_dir || null,
    part_places: createPartPermits(),
    package_mirror: otherMirror(options.package_mirror),
    packages: options.package_mirror ? createPackageIndex({ mirror: options.package_mirror, clock, logger }) : null,
    package_lookups: createLookups(clock),
    people: {
      passwords: openPasswords(),
      secrets,
      bounds: createSignInLimiter(clock, options.sign_in_limits),
      registration: options.registration ?? 'invitation',
      wakeMailSender: () => sender?.poke(),
    },
    payment,
    openapi: () => (description ??= Buffer.from(JSON.stringify(describe([...APP_ROUTES, ...CELL_ROUTES], base_url)))),
    logger,
  }
}

function startWorkers(options: ApiOptions, deps: WorkerDeps) {
  const { payment } = deps
  return {
    ender: options.ends_organizations === true ? startDeletionWorker(deps) : undefined,
    maker: options.makes_exports === true ? startExportWorker(deps) : undefined,
    collector: options.collects_payments === true && payment !== null ? startPaymentSync({ ...deps, payment }) : undefined,
  }
}

function serverOf(options: ApiOptions, { store, rings, verdicts, revocations }: Foundation, deps: ApiDeps): ServerHandle {
  const { clock, ids, logger } = options
  const { db, reads } = store
  const held = createWaitPermits()
  const { caller_rate, guesses, refusals } = callerLimits(options)
  return createServer<ApiDeps, WaitPermit>({
    surface: 'app',
    routes: API_ROUTES,
    deps,
    files: siteFiles(),
    clock,
    ids,
    logger,
    authenticate: (arrival): Promise<Principal> => authenticate({ db, reads, clock, verdicts, guesses }, arrival),
    roleOf: (call, who) => roleOf({ reads }, who, call),
    rate: async (_arrival, who) => caller_rate?.(who as Principal), // authenticate() returns only Principals
    admit: async (arrival, who) => {
      await refuseGrowth(deps.reserve, arrival.route)
      return held.acquire(arrival, who as Principal)
    },
    ...(options.edge_requests_per_minute ? { edge: createEdge(options.edge_requests_per_minute, clock) } : {}),
    ...(options.cors_origins ? { cors_origins: options.cors_origins } : {}),
    held: (call, revokes) => revocations.awaitConfirmed(scopeOf(call, revokes), call.signal),
    idempotency: idempotency(rings.idempotency, ANSWERS, refusals),
    validate_answers: options.validate_answers ?? false,
    ...(options.observe ? { observe: options.observe } : {}),
  })
}

function scopeOf({ params }: { params: unknown }, revokes: 'workspace' | 'project' | 'everywhere'): RevocationScope {
  const { workspace_id = '', project_id = '' } = params as { workspace_id?: string; project_id?: string }
  if (revokes === 'everywhere') return 'everywhere'
  return revokes === 'workspace' ? `workspace:${workspace_id.toLowerCase()}` : `project:${project_id.toLowerCase()}`
}

const UNLIMITED: AuthFailureLimiter = { lookUp: (_address, _digest, find) => find() }

/** Limits per caller, and per address for failed credentials. */
function callerLimits(options: ApiOptions) {
  const { clock } = options
  const requests = options.caller_requests_per_minute ?? LIMITS.caller.requests_per_minute
  const wrong = options.wrong_credentials_per_minute ?? LIMITS.caller.wrong_credentials_per_minute
  const tokens = options.kept_refusals_per_hour ?? LIMITS.idempotency.kept_refusals_per_hour
  return {
    caller_rate: requests === 0 ? null : createCallerRate(requests, clock),
    guesses: wrong === 0 ? UNLIMITED : createAuthFailureLimiter(wrong, clock),
    refusals: createBuckets({ tokens, seconds: 3600, names_max: LIMITS.caller.callers_counted_max }, clock),
  }
}
