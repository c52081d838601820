import type { Poller } from '../../lib/poll.ts'
import type { PaymentService } from './payment/service.ts'

export interface MoneyDeps {
  /** null: the operator records payments. */
  payment: PaymentService | null
  payments: Pick<Poller, 'poke'>
}
