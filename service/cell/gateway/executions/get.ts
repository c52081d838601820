import type { executionsGet } from '../../../../contract/routes/cell/executions.ts'
import { fail } from '../../../lib/fail.ts'
import type { GatewayHandler } from '../handler.ts'

export const getExecution: GatewayHandler<typeof executionsGet> = () => {
  const details = { mode: 'processful', operation: 'executions' }
  return Promise.reject(fail('conflict', 'not_supported_for_mode', 'Executions are for file-first workspaces', { details }))
}
