import type { Poller } from '../../lib/poll.ts'
import type { PaymentService } from './payment/service.ts'

/** Services of payments. */
export interface MoneyDeps {
  /** Service that collects invoices; null: the operator records payments. */
  payment: PaymentService | null
  /** Worker that syncs with the payment service. */
  payments: Pick<Poller, 'poke'>
}
