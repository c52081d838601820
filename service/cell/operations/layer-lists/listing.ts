import type { Logger } from 'pino'
import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { DiskReserve } from '../../../lib/disk-reserve.ts'
import { HostFailure, type MachineHost } from '../../host/hostd.ts'
import { oneAtATime, debounced, tickEvery } from '../../../lib/poll.ts'
import { dropUnusedLists, markUnavailable, wantedLists, writePiece, type WantedList } from './store.ts'

interface ListingContext {
  db: Db
  clock: Clock
  log: Logger
  host: Pick<MachineHost, 'listLayer'>
  /** Absent: lists are made even on a full disk. */
  trees?: { readonly reserve: DiskReserve }
}

/** A pass each minute finds requests whose notice was lost. */
const LOOK_MS = 60_000
const HEARD_MS = 20
const LISTS_AT_A_TIME = 10
const STRANGE_MS = 24 * 3600_000
/** Approximate size of a piece in the database. */
const PIECE_BYTES = 1 << 20
/** Unused lists are removed only in each sixtieth pass, because this is not urgent. */
const STRANGE_LOOKS = 60

/** Lists are made in the background: each reads all files of a layer, and no machine should wait for it. */
export function startListing(context: ListingContext, listener: Listener, signal: AbortSignal): void {
  let heard = 0
  const look = oneAtATime(async () => {
    let looked_for: number
    do {
      looked_for = heard // a notice during a pass causes another pass
      await listWanted(context, signal)
    } while (heard !== looked_for)
  })
  const failed = (error: unknown) => {
    if (!signal.aborted) context.log.warn({ err: error }, 'a list of a layer could not be made')
  }
  const begin = debounced(HEARD_MS, () => void look().catch(failed), signal)
  const hear = () => {
    heard += 1
    begin()
  }
  signal.addEventListener('abort', listener.on('berth_layer_list', hear), { once: true })
  let looks = 0
  const tick = async () => {
    await look()
    looks += 1
    if (looks % STRANGE_LOOKS === 1) await dropUnusedLists(context.db, new Date(context.clock.now().getTime() - STRANGE_MS))
  }
  tickEvery(LOOK_MS, tick, failed, signal)
  begin()
}

/** Rejects if the host does not answer: the next pass continues. */
export async function listWanted(context: ListingContext, signal: AbortSignal): Promise<void> {
  for (;;) {
    const wanted = await wantedLists(context.db, LISTS_AT_A_TIME)
    if (wanted.length === 0) return
    for (const one of wanted) await list(context, one, signal)
  }
}

async function list({ db, clock, log, host, trees }: ListingContext, { layer, reached }: WantedList, signal: AbortSignal): Promise<void> {
  let after = reached ?? ''
  try {
    for (;;) {
      signal.throwIfAborted()
      const piece = await host.listLayer(layer, after)
      using _reserved = await trees?.reserve.take(PIECE_BYTES) // after a failure the next pass continues here
      await writePiece(db, layer, piece, clock.now())
      if (piece.done) return
      after = piece.directories.at(-1)?.path ?? after
    }
  } catch (error) {
    if (!(error instanceof HostFailure) || error.code === 'unreachable') throw error
    log.warn({ layer, code: error.code }, 'the files of a layer cannot be listed')
    await markUnavailable(db, layer, clock.now())
  }
}
