import type { Poller } from '../../lib/poll.ts'

export interface LifecycleDeps {
  enders: Pick<Poller, 'poke'>
}
