import { Type } from 'typebox'
import { PatchResult, Revision } from '../../../contract/schemas/cell/file.ts'
import { fail, Failure } from '../../lib/fail.ts'
import { shape } from './agent-answer.ts'

/** The agent's word, and the caller's in `expected_revision`; what is answered has no revision of a file that is not there. */
const ABSENT = 'absent'

const patched = shape(Type.Object({ ...PatchResult.properties, previous_revision: Type.Optional(Revision) }))

export const patchResult = {
  parse(value: unknown): PatchResult {
    const { previous_revision, ...result } = patched.parse(value)
    if (previous_revision === undefined) return result // the agent has not computed it
    return { ...result, previous_revision: previous_revision === ABSENT ? null : previous_revision }
  },
}

/** Cell, "File, parking and host reasons": `details.current_revision` is absent for a missing file. */
export function patchRefusal(error: unknown): unknown {
  if (!(error instanceof Failure) || error.options.details?.['current_revision'] !== ABSENT) return error
  const { current_revision: _, ...details } = error.options.details
  return fail(error.code, error.reason ?? null, error.message, { ...error.options, details })
}
