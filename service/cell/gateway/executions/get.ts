import type { executionsGet } from '../../../../contract/routes/cell/executions.ts'
import { fail } from '../../../lib/fail.ts'
import type { GatewayHandler } from '../handler.ts'

/** The gate has refused it on workspaces of another mode; no workspace of this one has had an execution. */
export const getExecution: GatewayHandler<typeof executionsGet> = () =>
  Promise.reject(fail('not_found', null, 'There is no such execution'))
