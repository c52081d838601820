import { EGRESS_DEFAULT } from '../../../../contract/internal/host-egress.ts'
import { DENY_ALL, type EgressPolicy } from '../../../../contract/egress/policy.ts'
import type { Machine } from '../../../../contract/internal/host-inventory.ts'
import type { LayerRequest } from '../../../../contract/internal/host-layers.ts'
import type { CommandHeader } from '../../../../contract/internal/host-subject.ts'
import { revisionOf } from '../../../core/workspaces/egress/effective.ts'
import type { BuildPlan } from '../../../core/templates/build-plan.ts'
import { Failure } from '../../../lib/fail.ts'
import { hostEgress } from '../../policies/egress/enforcing.ts'
import { openLink as openAgentLink, type OpenLink } from '../../host/agent.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { UNLIMITED_BUDGET } from '../../host/buffer-budget.ts'
import { HostFailure, type MachineHost } from '../../host/hostd.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { untilAnswered } from './ask.ts'
import { BuildFailed } from './failed.ts'
import { type Stage, stagesOf, uploadKey } from './stages.ts'
import { type Guest, runStep } from './steps.ts'
import { BASE_ROOT, unpackBase } from './unpack/base.ts'

export interface StepCache {
  find(key: string): Promise<string | undefined>
  keep(key: string, layer: string): Promise<void>
  forget(key: string): Promise<void>
}

export interface LayerDeps {
  host: Pick<MachineHost, 'start' | 'stop' | 'makeLayer' | 'keepLayers' | 'deleteDisks'>
  cache: StepCache
  /** null: this installation stores no uploads. */
  uploads_dir: string | null
  /** Absent in tests. */
  openLink?: (machine: Machine) => OpenLink
}

export interface BuildRun {
  build_id: string
  operation_id: string
  fence: number
  plan: BuildPlan
  say(text: Buffer): void
  signal: AbortSignal
}

/** Paths that layers omit: they belong to the machine itself, or are useless in a version. */
const DROPPED = [
  '/tmp/',
  '/var/tmp/',
  '/run/',
  '/dev/',
  '/etc/resolv.conf',
  '/etc/hostname',
  '/etc/hosts',
  '/etc/machine-id',
  '/var/cache/apt/archives/',
]
const LAYER_ENTRIES_MAX = 1_000_000
const GIB = 2 ** 30

/** Runs all steps again if the host has lost a layer. @returns the layers, the lowest first @throws BuildFailed */
export async function buildLayers(given: LayerDeps, run: BuildRun): Promise<string[]> {
  const deps = { ...given, host: patient(given.host, run.signal) }
  const stages = stagesOf(run.plan)
  await deps.host.stop(speaking(run, 'stop-first')) // the machine of a dead process's attempt
  for (let tries = 1; ; tries++) {
    try {
      return await layersOf(deps, run, stages, tries)
    } catch (error) {
      run.signal.throwIfAborted()
      if (!(error instanceof HostFailure) || error.code !== 'layer_missing' || tries > 1) throw explained(error)
      const { base_upload } = run.plan
      const keys = [...(base_upload === undefined ? [] : [uploadKey(base_upload)]), ...stages.map(({ key }) => key)]
      for (const key of keys) await deps.cache.forget(key)
      tell(run, 'a layer that was made before is not there any more: all steps are run again')
    }
  }
}

/** Repeats calls that get no answer, so that no build fails because its host restarts. */
function patient(host: LayerDeps['host'], signal: AbortSignal): LayerDeps['host'] {
  return {
    start: (request) => untilAnswered(signal, () => host.start(request)),
    stop: (request) => untilAnswered(signal, () => host.stop(request)),
    makeLayer: (request) => untilAnswered(signal, () => host.makeLayer(request)),
    keepLayers: (layers) => untilAnswered(signal, () => host.keepLayers(layers)),
    deleteDisks: (request) => host.deleteDisks(request), // a reconcile pass deletes what this leaves
  }
}

async function layersOf(deps: LayerDeps, run: BuildRun, stages: Stage[], tries: number): Promise<string[]> {
  const { base_upload } = run.plan
  const layers = base_upload === undefined ? [...run.plan.layers] : [await baseLayer(deps, run, base_upload, tries)]
  for (const stage of stages) {
    run.signal.throwIfAborted()
    const known = await deps.cache.find(stage.key)
    for (const [at, { title }] of stage.steps.entries()) {
      tell(run, `step ${stage.first + at + 1} of ${run.plan.steps.length}: ${title}${known === undefined ? '' : ' (as before)'}`)
    }
    const layer = known ?? (await makeStage(deps, run, stage, layers, `${tries}.${stage.first}`))
    if (known === undefined) await keep(deps, stage.key, layer)
    layers.push(layer)
  }
  // Marks the layers as used. This fails if the host has removed a cached layer meanwhile.
  await deps.host.keepLayers(layers)
  return layers
}

async function keep({ cache }: LayerDeps, key: string, layer: string): Promise<void> {
  await failpoint('template_build.B6')
  await cache.keep(key, layer)
}

/** The uploaded base is unpacked in a machine on the platform's base, never on the host. */
async function baseLayer(deps: LayerDeps, run: BuildRun, upload: NonNullable<BuildPlan['base_upload']>, tries: number): Promise<string> {
  const key = uploadKey(upload)
  const known = await deps.cache.find(key)
  tell(run, `the base: unpack the upload ${upload.id}${known === undefined ? '' : ' (as before)'}`)
  if (known !== undefined) return known
  const at = { name: `${tries}.base`, layers: upload.layers, egress: DENY_ALL, make: { root: BASE_ROOT } }
  const layer = await makeIn(deps, run, at, (machine) =>
    withGuest(deps, run, machine, (guest) => unpackBase(guest, upload, LAYER_ENTRIES_MAX)),
  )
  await keep(deps, key, layer)
  return layer
}

function makeStage(deps: LayerDeps, run: BuildRun, { steps, first }: Stage, layers: string[], name: string): Promise<string> {
  const at = { name, layers, egress: run.plan.egress, make: { drop: DROPPED } }
  return makeIn(deps, run, at, (machine) =>
    withGuest(deps, run, machine, async (guest) => {
      for (const [place, step] of steps.entries()) await runStep(guest, step, first + place + 1)
    }),
  )
}

interface Making {
  name: string
  layers: string[]
  egress: EgressPolicy
  make: Pick<LayerRequest, 'drop' | 'root'>
}

async function makeIn(
  deps: LayerDeps,
  run: BuildRun,
  { name, layers, egress, make }: Making,
  work: (machine: Machine) => Promise<void>,
): Promise<string> {
  const { host } = deps
  const speak = (step: string): CommandHeader => speaking(run, `${step}-${name}`)
  const { plan } = run
  let machine: Machine | null = null
  try {
    await failpoint('template_build.B4')
    machine = await host.start({
      ...speak('start'),
      resources: plan.resources,
      hostname: `build-${run.build_id.slice(-12)}`,
      layers: [...layers],
      ...egressOf(egress),
      connect: true,
    })
    await work(machine)
    await host.stop(speak('stop'))
    await failpoint('template_build.B5')
    const bounds = { ...make, bytes_max: plan.resources.disk_gib * GIB, entries_max: LAYER_ENTRIES_MAX }
    const layer = await host.makeLayer({ ...speak('layer'), disk: machine.disk, layers, ...bounds })
    return layer.digest
  } finally {
    await clear(host, speak, machine)
  }
}

/** Stops the machine and deletes its disk. Errors are ignored, because a reconcile pass removes the rest. */
async function clear(host: LayerDeps['host'], speak: (step: string) => CommandHeader, machine: Machine | null): Promise<void> {
  await host.stop(speak('stop-last')).catch(() => null)
  if (machine !== null) await host.deleteDisks({ ...speak('drop'), names: [machine.disk] }).catch(() => undefined)
}

async function withGuest(deps: LayerDeps, run: BuildRun, machine: Machine, work: (guest: Guest) => Promise<void>): Promise<void> {
  const { link, close } = (deps.openLink ?? openAgentLink)(machine)
  const bounds = { signal: run.signal, room: UNLIMITED_BUDGET }
  const guest = { link, bounds, plan: run.plan, uploads_dir: deps.uploads_dir, say: (text: Buffer) => run.say(text) }
  try {
    await work(guest)
  } finally {
    close()
  }
}

function speaking({ build_id, operation_id, fence }: BuildRun, step: string): CommandHeader {
  return { subject: { kind: 'build', id: build_id }, operation_id, step, epoch: 1, fence }
}

function egressOf(egress: EgressPolicy) {
  const revision = revisionOf(egress)
  return revision === EGRESS_DEFAULT ? {} : { egress: hostEgress({ effective: egress, revision, secret_ports: [] }) }
}

function tell({ say }: BuildRun, line: string): void {
  say(Buffer.from(`==> ${line}\n`))
}

/** Turns errors that the owner of a build can fix into BuildFailed. */
function explained(error: unknown): unknown {
  const options = { cause: error }
  if (error instanceof AgentFailure)
    return new BuildFailed('the machine of the build does not answer any more: its memory may not suffice', null, null, options)
  if (error instanceof Failure) return new BuildFailed(error.message, null, null, options)
  if (!(error instanceof HostFailure)) return error
  if (error.code === 'layer_refused')
    return new BuildFailed(
      `what the step left becomes no layer: ${WHY[String(error.details['why'])] ?? 'it is too large'}`,
      null,
      null,
      options,
    )
  if (error.code === 'disk_full') return new BuildFailed('the disk of the build is full', null, null, options)
  return error
}

const WHY: Partial<Record<string, string>> = {
  too_large: `its files have more than the disk of the build`,
  too_many_entries: `it has more than ${LAYER_ENTRIES_MAX} files`,
  path_too_long: 'a path is too long',
}
