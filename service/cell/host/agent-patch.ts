import { PatchResult as AgentPatchResult } from '../../../contract/internal/agent-files.ts'
import type { PatchResult } from '../../../contract/schemas/cell/file.ts'
import { fail, Failure } from '../../lib/fail.ts'
import { shape } from './agent-answer.ts'

/** The revision of a missing file, as the agent and the caller send it. Answers omit the revision instead. */
const ABSENT = 'absent'

const patched = shape(AgentPatchResult)

export const patchResult = {
  parse(value: unknown): PatchResult {
    const { previous_revision, ...result } = patched.parse(value)
    if (previous_revision === undefined) return result // the agent has not computed the revision
    return { ...result, previous_revision: previous_revision === ABSENT ? null : previous_revision }
  },
}

export function patchRefusal(error: unknown): unknown {
  if (!(error instanceof Failure) || error.options.details?.['current_revision'] !== ABSENT) return error
  const { current_revision: _, ...details } = error.options.details
  return fail(error.code, error.reason ?? null, error.message, { ...error.options, details })
}
