import type { Poller } from '../../lib/poll.ts'

/** Services that end organizations and accounts. */
export interface LifecycleDeps {
  /** Worker that deletes organizations. */
  enders: Pick<Poller, 'poke'>
}
