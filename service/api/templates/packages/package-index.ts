import { createInterface } from 'node:readline'
import { Readable, Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Architecture } from '../../../../contract/schemas/recipes.ts'
import type { TemplatePackage } from '../../../../contract/schemas/template-packages.ts'
import type { Clock } from '../../../lib/clock.ts'
import { parseIndex } from './parse-index.ts'

export type Found =
  | { kind: 'packages'; packages: ReadonlyMap<string, TemplatePackage> }
  | { kind: 'loading' }
  /** The mirror does not answer, or has no index. */
  | { kind: 'unreachable' }
  | { kind: 'absent' }

export interface PackageIndex {
  of(architecture: Architecture): Found
  close(): void
}

interface Entry {
  found: Found
  read_ms: number
  reading: Promise<void> | null
}

const SUITE = 'bookworm'
const TIMEOUT_MS = 120_000
const RETRY_MS = 15_000
const HOUR_MS = 3600_000

/** @param mirror URL as in sources.list. */
export function createPackageIndex({ mirror, clock, logger }: { mirror: string; clock: Clock; logger: Logger }): PackageIndex {
  const entries = new Map<Architecture, Entry>()
  const closing = new AbortController()
  return {
    of(architecture) {
      const entry = entries.get(architecture) ?? { found: { kind: 'loading' }, read_ms: -Infinity, reading: null }
      entries.set(architecture, entry)
      const kept_ms = entry.found.kind === 'packages' ? LIMITS.template_package.index_hours * HOUR_MS : RETRY_MS
      if (entry.reading === null && clock.monotonic_ms() - entry.read_ms >= kept_ms) entry.reading = read(architecture, entry)
      return entry.found
    },
    close: () => closing.abort(),
  }

  /** A stale index remains in use until a newer one is loaded. */
  async function read(architecture: Architecture, entry: Entry): Promise<void> {
    if (entry.found.kind !== 'packages') entry.found = { kind: 'loading' }
    try {
      const found = await fetchIndex(mirror, architecture, closing.signal)
      if (found.kind !== 'absent' || entry.found.kind !== 'packages') entry.found = found
    } catch (error) {
      if (!closing.signal.aborted) logger.warn({ err: error, architecture }, 'the index of packages could not be read')
      if (entry.found.kind !== 'packages') entry.found = { kind: 'unreachable' }
    }
    entry.read_ms = clock.monotonic_ms()
    entry.reading = null
  }
}

async function fetchIndex(mirror: string, architecture: Architecture, closing: AbortSignal): Promise<Found> {
  const url = `${mirror.replace(/\/+$/, '')}/dists/${SUITE}/main/binary-${architecture}/Packages.gz`
  const signal = AbortSignal.any([closing, AbortSignal.timeout(TIMEOUT_MS)])
  const response = await fetch(url, { signal })
  if (response.status === 404) return { kind: 'absent' }
  if (!response.ok || response.body === null) throw new Error(`${url} answered ${response.status}`)
  const text = Readable.fromWeb(response.body).pipe(createGunzip())
  const bounded = text.pipe(bound(LIMITS.template_package.index_bytes_max))
  text.on('error', (error) => bounded.destroy(error))
  return { kind: 'packages', packages: await parseIndex(linesOf(bounded)) }
}

/** readline alone would end without an error when the stream fails. */
async function* linesOf(stream: Readable): AsyncGenerator<string> {
  const failed = new Promise<never>((_, reject) => stream.on('error', reject))
  failed.catch(() => undefined) // prevents an unhandled rejection if the reader stops early
  const lines = createInterface({ input: stream, crlfDelay: Infinity })[Symbol.asyncIterator]()
  for (;;) {
    const next = await Promise.race([lines.next(), failed])
    if (next.done === true) break
    yield next.value
  }
  if (stream.errored) throw stream.errored
}

/** A mirror may send endlessly, so the bytes are limited. */
function bound(bytes_max: number): Transform {
  let bytes = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      done(bytes > bytes_max ? new Error(`the index has more than ${bytes_max} bytes`) : null, chunk)
    },
  })
}
