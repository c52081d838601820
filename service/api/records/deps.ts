import type { Poller } from '../../lib/poll.ts'

/** Services of exports. */
export interface RecordDeps {
  /** Worker that makes exports. */
  exports: Pick<Poller, 'poke'>
}
