import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { LIMITS } from '../../../../contract/limits.ts'
import type { DiskReserve } from '../../../lib/disk-reserve.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { startPoller, type Poller } from '../../../lib/poll.ts'
import { archive, TooLarge, type Bounds } from './archive.ts'
import { ACCOUNT_CONTENT, atOneMoment, ORGANIZATION_CONTENT, rowsOf } from './content-store.ts'
import { endFailed, endReady, holdExport, insertPart, claimExport, type ExportRow } from './store.ts'
import type { CallDeps } from '../../calls/deps.ts'

const LOOK_MS = 2000
/** Each stored part renews the lease. When the lease expires, another process makes the export. */
const HELD_MS = 60_000
const { part_bytes, kept_hours, minutes_max, attempts_max } = LIMITS.export

export type ExportWorkerDeps = Pick<CallDeps, 'db' | 'clock' | 'logger'> & {
  /** Absent: no space is reserved. */
  reserve?: DiskReserve
  bounds?: Bounds
}

/** Several processes may run this worker. */
export function startExportWorker(deps: ExportWorkerDeps): Poller {
  return startPoller({
    every_ms: LOOK_MS,
    look: (stopped) => makeAll(deps, stopped),
    failed: (error) => deps.logger.warn({ err: error }, 'exports could not be read'),
  })
}

export async function makeAll(deps: ExportWorkerDeps, stopped: () => boolean = () => false): Promise<void> {
  while (!stopped()) {
    const now = deps.clock.now()
    const row = await claimExport(deps.db, now, heldUntil(now))
    if (row === undefined) return
    await makeOne(deps, row, stopped)
  }
}

function heldUntil(now: Date): Date {
  return new Date(now.getTime() + HELD_MS)
}

class Lost extends Error {}

async function makeOne(deps: ExportWorkerDeps, row: ExportRow, stopped: () => boolean): Promise<void> {
  const { db, clock, logger } = deps
  try {
    if (row.attempt > attempts_max) return await endFailed(db, row, 'internal_error', clock.now())
    const { size_bytes, sha256 } = await keepParts(deps, row, stopped)
    await failpoint('export.X1')
    const completed_at = clock.now()
    await endReady(db, row, { size_bytes, sha256, completed_at, expires_at: new Date(completed_at.getTime() + kept_hours * 3600_000) })
  } catch (error) {
    if (error instanceof Lost) return
    if (error instanceof TooLarge) return endFailed(db, row, 'export_too_large', clock.now())
    logger.warn({ err: error, export_id: row.id, attempt: row.attempt }, 'an export was not made, and is tried again')
  }
}

/** Writes parts, so that memory holds at most one file. */
async function keepParts(deps: ExportWorkerDeps, row: ExportRow, stopped: () => boolean): Promise<{ size_bytes: number; sha256: string }> {
  const { db, clock, reserve } = deps
  const hash = createHash('sha256')
  let [size_bytes, number] = [0, 0]
  const ends_at = clock.now().getTime() + minutes_max * 60_000
  const keep = async (bytes: Buffer) => {
    using _reserved = await reserve?.take(bytes.length)
    const now = clock.now()
    if (stopped() || now.getTime() > ends_at || !(await insertPart(db, row, number++, bytes, heldUntil(now)))) throw new Lost()
    hash.update(bytes)
    size_bytes += bytes.length
  }
  const beat = () => holdExport(db, row, heldUntil(clock.now()))
  await atOneMoment(db, (tx) =>
    pipeline(Readable.from(contentOf(deps, tx, row, beat)), createGzip(), (source: AsyncIterable<Buffer>) => inParts(source, keep)),
  )
  return { size_bytes, sha256: hash.digest('hex') }
}

/** @param beat renews the lease, because compression may produce no part for a long time. */
async function* contentOf(
  { clock, bounds = LIMITS.export }: ExportWorkerDeps,
  tx: Parameters<typeof rowsOf>[0],
  row: ExportRow,
  beat: () => Promise<unknown>,
) {
  const contents = row.organization_id === null ? ACCOUNT_CONTENT : ORGANIZATION_CONTENT
  const whose = row.organization_id ?? row.requested_by
  const sources = contents.map((content) => ({ ...content, pages: () => rowsOf(tx, content, whose) }))
  const now = clock.now()
  const { id, organization_id, requested_by } = row
  const manifest = {
    format: 1,
    export_id: id,
    kind: organization_id === null ? 'account' : 'organization',
    organization_id,
    requested_by,
    made_at: now.toISOString(),
    left_out: LEFT_OUT,
  }
  let beaten_at = now.getTime()
  for await (const piece of archive(sources, manifest, now, bounds)) {
    if (clock.now().getTime() - beaten_at > HELD_MS / 4) {
      beaten_at = clock.now().getTime()
      await beat()
    }
    yield piece
  }
}

export const LEFT_OUT = [
  'values of secrets, passwords, second factors, and whatever else signs in',
  'files of workspaces, volumes and trees, and images of templates: they are read by the file routes',
  'feedback, which nothing that serves requests can read',
  'usage of single workspaces: GET /v1/workspaces/{workspace_id}/usage has it',
] as const

async function inParts(source: AsyncIterable<Buffer>, keep: (bytes: Buffer) => Promise<void>): Promise<void> {
  let [pieces, bytes]: [Buffer[], number] = [[], 0]
  for await (const piece of source) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes < part_bytes) continue
    await keep(Buffer.concat(pieces))
    ;[pieces, bytes] = [[], 0]
  }
  await keep(Buffer.concat(pieces))
}
