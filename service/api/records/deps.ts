import type { Poller } from '../calls/looking.ts'

/** Services of exports. */
export interface RecordDeps {
  /** Worker that makes exports. */
  exports: Pick<Poller, 'poke'>
}
