import type { execStart } from '../../../../contract/routes/cell/exec.ts'
import type { Command } from '../executions/run.ts'
import { TRUST_VARIABLES } from '../../policies/secrets/trust.ts'
import { withEnvironment } from '../../gateway/exec/rules.ts'
import type { GivenVariables } from '../../gateway/secret-variables.ts'
import type { TreeHandler } from '../tree-calls/calls.ts'
import { executionOf, viewOf } from './rules.ts'

/** The command continues when its caller disconnects (Cell, "File-first rules" 1 and 7). */
export const runExecution: TreeHandler<typeof execStart> = async (call, { executions, secrets }, { entry }) => {
  const { execution_id, fingerprint, output_limit_bytes, asked, shown } = executionOf(call.body)
  const command = async (): Promise<Command> => {
    const { values, authority } = await secrets.valuesFor(entry, 'exec', asked.secret_refs)
    const given = (below: GivenVariables['below']) => {
      const { session_id: _id, fingerprint: _of, ...exec } = withEnvironment(asked, entry, { below, values })
      return exec
    }
    const plain = { exec: given({}), output_limit_bytes }
    if (authority === null) return plain
    const bring: NonNullable<Command['trusting']>['bring'] = (agent, machine, bounds) =>
      secrets.trust.bring(agent, entry.id, machine, authority, bounds)
    return { ...plain, trusting: { bring, exec: given(TRUST_VARIABLES) } }
  }
  const { row, ran } = await whileThere(executions.run({ workspace_id: entry.id, execution_id, fingerprint, shown, command }), call.signal)
  return { status: ran ? 201 : 200, body: viewOf(row) }
}

function whileThere<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const left = () => reject(signal.reason as Error)
  signal.addEventListener('abort', left, { once: true })
  work.then(resolve, reject).finally(() => signal.removeEventListener('abort', left))
  return promise
}
