import type { Logger } from 'pino'
import { fail } from '../../../lib/fail.ts'
import { PaymentError } from './service.ts'

export async function reportOutage<T>(logger: Logger, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof PaymentError)) throw error
    logger.warn({ err: error }, 'the payment service did not answer')
    throw fail('dependency_unavailable', null, 'The payment service does not answer at the moment', { cause: error })
  }
}
