import { setTimeout } from 'node:timers/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import type { BuildPlan } from '../../../core/templates/build-plan.ts'
import { buildSubject } from '../../host/subject.ts'
import { operationError, Refused } from '../errors.ts'
import type { BuildWork, Made } from './ask.ts'
import { BuildFailed } from './failed.ts'
import { buildLayers, type StepCache } from './layers.ts'
import { dropBuildMachine, findStep, forgetStep, grantBuildMachine, isOver, keepStep } from './machine-store.ts'

/** The content of `template_builds.spec`. */
export interface RecipeSpec extends BuildPlan {
  /** Absent in builds that an older version began. */
  warnings?: string[]
  description: string | null
  auto_publish: boolean
}

const LOOK_MS = 1000
const FLUSH_MS = 300

export async function buildFromRecipe(work: BuildWork): Promise<Made> {
  const { build, cell } = work
  const spec = build.spec as RecipeSpec // written by the api
  const ending = new AbortController()
  const over = AbortSignal.timeout(LIMITS.build.seconds_max * 1000)
  const signal = AbortSignal.any([work.signal, ending.signal, over])
  const log = logger(work)
  const watching = watch(work, ending)
  try {
    for (const warning of spec.warnings ?? []) log.say(Buffer.from(`==> warning: ${warning}\n`))
    await takeRoom(work, spec, signal)
    const run = { build_id: build.id, operation_id: work.operation.id, fence: work.operation.fence, plan: spec, say: log.say, signal }
    const deps = { host: cell.host, cache: cacheOf(work), uploads_dir: cell.uploads_dir || null }
    const layers = await buildLayers({ ...deps, ...(cell.guests && { openLink: cell.guests.open }) }, run)
    const { settings, ceiling: egress, description, auto_publish } = spec
    return { layered: true, layers, settings, egress, description, findings: [], auto_publish }
  } catch (error) {
    if (over.aborted && !work.signal.aborted) throw refused(new BuildFailed(`it did not end within ${LIMITS.build.seconds_max} seconds`))
    throw error instanceof BuildFailed ? refused(error) : error
  } finally {
    ending.abort()
    await watching
    await log.close()
    await dropBuildMachine(cell.db, build.id)
    cell.room.released()
  }
}

/** Reserves capacity for the whole build: also between two machines, and when a later process continues the build. */
async function takeRoom({ build, cell, operation }: BuildWork, { resources }: RecipeSpec, signal: AbortSignal): Promise<void> {
  const { memory_mib, disk_gib } = resources
  const { organization_id } = build
  const since = cell.clock.now()
  const want = { id: operation.id, organization_id, memory_mib, disk_gib, since, is_call: false, own: buildSubject(build.id) }
  const grant = { ...build, build_id: build.id, cell_id: cell.cell_id, fence: operation.fence, grants: resources }
  const reserve = async () => {
    await grantBuildMachine(cell.db, grant)
    return true
  }
  const given = await cell.room.acquire(want, reserve, LIMITS.wait.capacity_wait_seconds * 1000, { patient: true, signal })
  if (given !== null) return
  throw new Refused(operationError('capacity_unavailable', 'No host had room for the machine of the build'))
}

async function watch({ cell, operation }: BuildWork, ending: AbortController): Promise<void> {
  const ended = () => ending.signal.aborted
  while (!ended()) {
    await setTimeout(LOOK_MS, undefined, { signal: ending.signal }).catch(() => undefined)
    if (!ended() && (await isOver(cell.db, operation.id).catch(() => false))) ending.abort(new Error('The build was canceled'))
  }
}

function cacheOf({ cell, build }: BuildWork): StepCache {
  const of = (key: string) => ({ organization_id: build.organization_id, cell_id: cell.cell_id, key })
  return {
    find: (key) => findStep(cell.db, of(key), cell.clock.now()),
    keep: (key, layer) => keepStep(cell.db, { ...of(key), layer }, cell.clock.now()),
    forget: (key) => forgetStep(cell.db, of(key)),
  }
}

/** Writes the log in parts. A part that cannot be written is lost. */
function logger({ log, cell, build }: BuildWork) {
  const decoder = new TextDecoder()
  let pending = ''
  let writing: Promise<void> = Promise.resolve()
  const flush = () => {
    const text = pending.replaceAll('\0', '')
    pending = ''
    if (text !== '')
      writing = writing
        .then(() => log(text))
        .catch((error: unknown) => cell.log.warn({ build_id: build.id, err: error }, 'a part of the log of a build was not written'))
    return writing
  }
  const timer = setInterval(() => void flush(), FLUSH_MS)
  return {
    say(text: Buffer) {
      pending += decoder.decode(text, { stream: true })
    },
    close() {
      clearInterval(timer)
      return flush()
    },
  }
}

function refused(error: BuildFailed): Refused {
  const { step, exit_code, message } = error
  const of = step === null ? '' : `step ${step}: `
  return new Refused(operationError('dependency_failed', `${of}${message}`, { reason: 'step_failed', step, exit_code }))
}
