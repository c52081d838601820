import { LIMITS } from '../../../../contract/limits.ts'
import type { paymentEvents } from '../../../../contract/routes/app/billing.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { readBody } from '../../../http/read-body.ts'
import { fail } from '../../../lib/fail.ts'
import { keepEvent } from './store.ts'
import type { CallDeps } from '../../calls/deps.ts'
import type { MoneyDeps } from '../deps.ts'

export async function receivePaymentEvent(
  call: Call<typeof paymentEvents>,
  { payment, payments, db }: Pick<CallDeps, 'db'> & Pick<MoneyDeps, 'payment' | 'payments'>,
): Promise<Reply> {
  if (payment === null) throw fail('not_found', null, 'No payment service is connected')
  const signature = call.named_headers['Stripe-Signature']
  if (signature === undefined) throw unsigned()
  const body = await readBody(call.body_stream, LIMITS.payment.event_bytes_max)
  const event = body === null ? 'unsigned' : payment.readEvent(body, signature, call.now)
  if (event === 'unsigned') throw unsigned()
  if (event !== null && (await keepEvent(db, event, call.now))) payments.poke()
  return { status: 200, body: { received: true } }
}

const unsigned = () => fail('bad_request', null, 'This is not signed by the payment service, or was signed too long ago')
