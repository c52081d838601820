import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import type { Reader } from '../../db/reader.ts'
import type { Clock } from '../../lib/clock.ts'
import type { DiskReserve } from '../../lib/disk-reserve.ts'
import type { KeyRing } from '../../core/keys/ring/ring.ts'
import type { Ids } from '../../lib/ids.ts'
import type { TenantLimit } from './turns.ts'
import type { ChangeRate } from './change-rate.ts'
import type { Revocations } from '../../core/revocations/revocations.ts'

export interface CallDeps {
  db: Db
  /** Prepared statements, outside any transaction. */
  reads: Reader
  clock: Clock
  ids: Ids
  revocations: Pick<Revocations, 'awaitConfirmed'>
  turns: TenantLimit
  change_rate: ChangeRate
  cursor_keys: KeyRing
  /** Public address of this API, and issuer of tool tokens. */
  base_url: string
  /** Free space that PostgreSQL's disk must keep. */
  reserve: DiskReserve
  logger: Logger
}

export type ReadDeps = Pick<CallDeps, 'reads'>

export type PageDeps = Pick<CallDeps, 'reads' | 'cursor_keys'>

export type ChangeDeps = Pick<CallDeps, 'db' | 'ids' | 'turns' | 'change_rate'>
