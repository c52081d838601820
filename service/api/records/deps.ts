import type { Poller } from '../calls/looking.ts'

export interface RecordDeps {
  exports: Pick<Poller, 'poke'>
}
