import type { Logger } from 'pino'
import type { Db } from '../db/database.ts'
import type { Reader } from '../db/reader.ts'
import type { Clock } from '../lib/clock.ts'
import type { DiskReserve } from '../lib/disk-reserve.ts'
import type { KeyRing } from '../core/key-ring/ring.ts'
import type { Ids } from '../lib/ids.ts'
import type { PeopleDeps } from './auth/people.ts'
import type { Looking } from './looking.ts'
import type { Cells } from './workspaces/cells.ts'
import type { Buckets } from '../http/buckets.ts'
import type { PaymentService } from './payment/service.ts'
import type { PackageIndex } from './template-packages/package-index.ts'
import type { Waits } from './operations/waits.ts'
import type { Turns } from './turns.ts'
import type { ChangeRate } from './change-rate.ts'
import type { Revocations } from '../core/revocations/revocations.ts'
import type { PartPlaces } from './template-uploads/places.ts'
import type { Signer } from './tool-tokens/signer.ts'

/** What every handler of the application API works with. */
export interface ApiDeps {
  db: Db
  /** Prepared statements, outside of any transaction. */
  reads: Reader
  clock: Clock
  ids: Ids
  waits: Waits
  revocations: Pick<Revocations, 'held'>
  cells: Cells
  turns: Turns
  change_rate: ChangeRate
  signer: Signer
  /** Whether new workspaces keep their changes apart from their template, where its version supports that (App, "Open rules" 9). */
  layered_opens: boolean
  /** Whether workspaces may be file-first (App, "Open rules" 8). */
  file_first: boolean
  /** How long the answer to a delete waits for the gateway to know of it. */
  delete_told_seconds: number
  /** Sign cursors. */
  cursor_keys: KeyRing
  /** Public address of this API: the issuer of tool tokens. */
  base_url: string
  /** Scheme, host and public port of the URLs of ports: a name of its own below that host for each. */
  ports_url: string
  /** What stays free of the disk that PostgreSQL writes to. */
  reserve: DiskReserve
  /** Where the bytes of uploads are; null: none are kept. */
  uploads_dir: string | null
  part_places: PartPlaces
  /** Where builds take Debian's packages from, other than Debian's own mirrors; null: from those. */
  package_mirror: string | null
  /** What the mirror of Debian packages has; null: none is configured. */
  packages: PackageIndex | null
  package_lookups: Buckets
  /** What sign-in works with. */
  people: PeopleDeps
  /** What works off the deletion of organizations. */
  enders: Pick<Looking, 'poke'>
  /** What makes exports. */
  exports: Pick<Looking, 'poke'>
  /** Who collects what invoices say; null: an operator says what is paid. */
  payment: PaymentService | null
  /** What is between here and that service. */
  payments: Pick<Looking, 'poke'>
  /** The OpenAPI description, as it is served. The first call makes it, which takes a tenth of a second. */
  openapi(): Buffer
  logger: Logger
}
