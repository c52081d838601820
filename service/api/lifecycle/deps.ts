import type { Poller } from '../calls/looking.ts'

export interface LifecycleDeps {
  enders: Pick<Poller, 'poke'>
}
