import { LIMITS } from '../../../../contract/limits.ts'
import type { BuildKind } from '../../../../contract/schemas/template-builds.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { HostFailure } from '../../host/hostd.ts'
import { INTERRUPTED, operationError, Refused } from '../errors.ts'
import type { CellContext } from '../job.ts'
import type { OtherOperation } from '../queue-store.ts'
import { claim, endAttempt, finish } from '../store.ts'
import { LostRace } from '../../machines/machine-row-store.ts'
import type { BuildWork, Made } from './ask.ts'
import { buildFromRecipe } from './recipe.ts'
import { saveAsTemplate } from './save.ts'
import { appendLog, endBuild, insertVersion, isArchived, expireCapture, readBuild } from './store.ts'

/** Each must be safe to repeat from any point, and throws Refused if it cannot succeed. */
const MAKERS: Partial<Record<BuildKind, (work: BuildWork) => Promise<Made>>> = {
  save_as_template: saveAsTemplate,
  draft: saveAsTemplate,
  recipe: buildFromRecipe,
}

export function isBuild({ subject_kind, kind }: OtherOperation): boolean {
  return subject_kind === 'template_build' && kind === 'template_build'
}

/** Continues the build from any point. Rejects if a later pass must continue it. */
export async function workOnBuild(cell: CellContext, other: OtherOperation, signal: AbortSignal): Promise<void> {
  const taking = { operation_id: other.id, cell_id: cell.cell_id, now: cell.clock.now(), reserved: null }
  const operation = await cell.db.transaction().execute((tx) => claim(tx, taking))
  if (operation === undefined) return
  const build = await readBuild(cell.db, other.subject_id)
  const make = build === undefined ? undefined : MAKERS[build.kind]
  if (build === undefined || make === undefined) {
    const error = operationError('internal_error', 'This cell does not know the operation')
    return finish(cell.db, operation, cell.clock.now(), { state: 'failed', error })
  }
  if (operation.attempt > LIMITS.build.attempts_max)
    return finish(cell.db, operation, cell.clock.now(), { state: 'failed', error: INTERRUPTED })
  const work: BuildWork = { cell, operation, build, signal, log: (text) => appendLog(cell.db, build.id, text) }
  try {
    const made = await make(work)
    await failpoint('template_build.B3')
    await commit(work, made)
  } catch (error) {
    const refused = refusalOf(error)
    if (refused === undefined) throw error
    await work.log(`Failed: ${refused.message}\n`)
    await finish(cell.db, operation, cell.clock.now(), { state: 'failed', error: refused })
  }
}

/** One transaction writes the version and ends the build, so a build that was killed before has made no version. */
async function commit({ cell, operation, build, log }: BuildWork, made: Made): Promise<void> {
  const now = cell.clock.now()
  const { auto_publish, findings, ...version } = made
  const version_id = cell.ids.next()
  const number = { version: 0 }
  const result = { build_id: build.id, version_id }
  await endAttempt(cell.db, operation, now, { state: 'succeeded', result }, async (tx) => {
    const published = auto_publish && findings.length === 0 && !(await isArchived(tx, build.template_id))
    number.version = await insertVersion(tx, { ...version, id: version_id, template_id: build.template_id, findings, published, now })
    await endBuild(tx, build.id, { version_id, findings })
    if (build.capture_operation_id !== null) await expireCapture(tx, build.capture_operation_id, now)
  })
  await log(`Version ${number.version} is there.\n`)
}

function refusalOf(error: unknown) {
  if (error instanceof Refused) return error.error
  if (!(error instanceof HostFailure)) return undefined
  if (error.code === 'fenced') throw new LostRace('The build')
  return hostError(error)
}

export function hostError({ code, details }: HostFailure) {
  const { why } = details
  if (code === 'layer_refused')
    return operationError('dependency_failed', LAYER_WHYS[String(why)] ?? 'The files make no layer', { reason: String(why) })
  if (code === 'no_space') return operationError('dependency_failed', 'The host has no room for the layer', { reason: code })
  if (code === 'not_found') return operationError('checkpoint_corrupt', 'What was captured is not there any more', { reason: code })
  return operationError('dependency_failed', 'The host could not make the layer', { reason: code })
}

const LAYER_WHYS: Record<string, string> = {
  too_large: 'The files are larger than a layer may be',
  too_many_entries: 'There are more files than a layer may have',
  path_too_long: 'A path is longer than 4096 bytes',
}
