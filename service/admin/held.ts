import pino from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import { openRevocations } from '../core/revocations/revocations.ts'
import { listenerOf } from '../core/revocations/messages.ts'
import type { Db } from '../db/database.ts'
import { openListener, type Channels } from '../db/listen.ts'
import { applicationName } from '../db/options.ts'
import type { Clock } from '../lib/clock.ts'

const CHANNELS: Channels = new Map([
  ['berth_revoked', 'berth_revoked'],
  ['berth_revocation_api', 'berth_revocation'],
])

/** Waits for every process to apply the revocation, up to a time limit (decision 284). */
export async function awaitRevocation(db: Db, url: string, clock: Clock): Promise<void> {
  const listener = await openListener({ url, role: null, connections_max: 1, application_name: 'berth-admin' }, CHANNELS)
  const seconds = LIMITS.credential.revocation_held_seconds_max
  const logger = pino({ level: 'silent' }) // failed requests are repeated within the limit
  const revocations = openRevocations({ db, listener, clock, logger, listener_name: listenerOf(applicationName('api')), seconds })
  try {
    await revocations.awaitConfirmed('everywhere', new AbortController().signal)
  } finally {
    revocations.close()
    await listener.close()
  }
}
