import type { Poller } from '../../lib/poll.ts'

export interface RecordDeps {
  exports: Pick<Poller, 'poke'>
}
