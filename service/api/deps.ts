import type { Logger } from 'pino'
import type { Db } from '../db/database.ts'
import type { Reader } from '../db/reader.ts'
import type { Clock } from '../lib/clock.ts'
import type { DiskReserve } from '../lib/disk-reserve.ts'
import type { KeyRing } from '../core/keys/ring/ring.ts'
import type { Ids } from '../lib/ids.ts'
import type { PeopleDeps } from './access/auth/people.ts'
import type { Poller } from './calls/looking.ts'
import type { Cells } from './workspaces/cells.ts'
import type { Buckets } from '../http/buckets.ts'
import type { PaymentService } from './money/payment/service.ts'
import type { PackageIndex } from './templates/packages/package-index.ts'
import type { Waits } from './workspaces/operations/waits.ts'
import type { TenantLimit } from './calls/turns.ts'
import type { ChangeRate } from './calls/change-rate.ts'
import type { Revocations } from '../core/revocations/revocations.ts'
import type { PartPermits } from './templates/uploads/places.ts'
import type { Signer } from './workspaces/tool-tokens/signer.ts'

export interface ApiDeps {
  db: Db
  /** Prepared statements, outside any transaction. */
  reads: Reader
  clock: Clock
  ids: Ids
  waits: Waits
  revocations: Pick<Revocations, 'awaitConfirmed'>
  cells: Cells
  turns: TenantLimit
  change_rate: ChangeRate
  signer: Signer
  /** Whether new workspaces keep changes in a layer above the template, if its version supports that (App, "Open rules" 9). */
  layered_opens: boolean
  file_first: boolean
  /** Longest wait of a delete's answer for the cell, in seconds. */
  delete_told_seconds: number
  cursor_keys: KeyRing
  /** Public address of this API, and issuer of tool tokens. */
  base_url: string
  /** Scheme, host and public port of port URLs; each port has its own name below that host. */
  ports_url: string
  /** Free space that PostgreSQL's disk must keep. */
  reserve: DiskReserve
  /** Folder of uploads; null: uploads are not kept. */
  uploads_dir: string | null
  part_places: PartPermits
  /** Debian mirror for builds; null: Debian's own mirrors. */
  package_mirror: string | null
  /** Index of the Debian mirror; null: none configured. */
  packages: PackageIndex | null
  package_lookups: Buckets
  people: PeopleDeps
  /** Worker that deletes organizations. */
  enders: Pick<Poller, 'poke'>
  /** Worker that makes exports. */
  exports: Pick<Poller, 'poke'>
  /** Service that collects invoices; null: the operator records payments. */
  payment: PaymentService | null
  /** Worker that syncs with the payment service. */
  payments: Pick<Poller, 'poke'>
  /** Serialized OpenAPI description. The first call builds it, which takes a tenth of a second. */
  openapi(): Buffer
  logger: Logger
}
