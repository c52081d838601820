import { openSync, closeSync } from 'node:fs'

/** Failpoints of api and cell. Each is located before the step that it names. hostd has its own. */
export const FAILPOINTS = {
  'change.C1': { owner: 'api', before: 'the record of a change, after its work' },
  'change.C2': { owner: 'api', before: 'the commit of a change with its record' },
  'export.X1': { owner: 'api', before: 'the commit that an export is ready' },
  'mail.M1': { owner: 'api', before: 'a mail is handed to its transport' },
  'mail.M2': { owner: 'api', before: 'the commit that it is sent' },
  'payment.P1': { owner: 'api', before: 'the effect of an event of the payment service, whose object was read' },
  'payment.P2': { owner: 'api', before: 'the commit that the event has had its effect' },
  'payment.P3': { owner: 'api', before: 'an invoice that was pushed is noted' },
  'open.O1': { owner: 'api', before: 'the transaction that creates workspace, operation and key' },
  'open.O2': { owner: 'api', before: 'the answer' },
  'open.O3': { owner: 'cell', before: 'admission' },
  'open.O4': { owner: 'cell', before: 'the start of the machine' },
  'open.O8': { owner: 'cell', before: 'the commit of running and of success' },
  'open.O9': { owner: 'cell', before: 'its packets may leave' },
  'startup.U1': { owner: 'cell', before: 'a step of the start-up is noted' },
  'startup.U2': { owner: 'cell', before: 'a step of the start-up begins' },
  'startup.U3': { owner: 'cell', before: 'the commit of ready or failed' },
  'suspend.S1': { owner: 'api', before: 'the transaction that creates the operation' },
  'suspend.S2': { owner: 'cell', before: 'the gate is closed here' },
  'suspend.S3': { owner: 'cell', before: 'the checkpoint' },
  'suspend.S8': { owner: 'cell', before: 'the commit of suspended' },
  'suspend.S9': { owner: 'cell', before: 'the machine is killed' },
  'suspend.S11': { owner: 'cell', before: 'the operation succeeds' },
  'resume.R1': { owner: 'api', before: 'the transaction that creates the operation' },
  'resume.R2': { owner: 'cell', before: 'admission and the new epoch' },
  'resume.R3': { owner: 'cell', before: 'the restore' },
  'resume.R6': { owner: 'cell', before: 'the commit of running' },
  'resume.R7': { owner: 'cell', before: 'its packets may leave' },
  'resume.R8': { owner: 'cell', before: 'the operation succeeds' },
  'fork.F1': { owner: 'api', before: 'the transaction that creates target and operation' },
  'fork.F2': { owner: 'cell', before: "the source's gate is closed here" },
  'fork.F3': { owner: 'cell', before: 'the capture' },
  'fork.F4': { owner: 'cell', before: 'the commit of the capture' },
  'fork.F5': { owner: 'cell', before: 'the restore of the target' },
  'fork.F6': { owner: 'cell', before: 'the commit of running' },
  'fork.F7': { owner: 'cell', before: 'its packets may leave' },
  'fork.F8': { owner: 'cell', before: 'the operation succeeds' },
  'snapshot.P1': { owner: 'api', before: 'the transaction that creates the operation' },
  'snapshot.P2': { owner: 'cell', before: 'changes are kept out here' },
  'snapshot.P3': { owner: 'cell', before: 'the capture' },
  'snapshot.P6': { owner: 'cell', before: 'the commit of the checkpoint' },
  'reset.Z1': { owner: 'api', before: 'the transaction that creates the operation' },
  'reset.Z2': { owner: 'cell', before: 'the gate is closed here' },
  'reset.Z3': { owner: 'cell', before: 'the recovery checkpoint' },
  'reset.Z5': { owner: 'cell', before: 'the commit of the blank content' },
  'reset.Z6': { owner: 'cell', before: 'the old machine is killed' },
  'reset.Z6a': { owner: 'cell', before: 'the start of the new machine' },
  'reset.Z6b': { owner: 'cell', before: 'its packets may leave' },
  'reset.Z6c': { owner: 'cell', before: 'the commit of running and of success' },
  'restore.V1': { owner: 'api', before: 'the transaction that creates the operation' },
  'restore.V2': { owner: 'cell', before: 'the gate is closed here' },
  'restore.V3': { owner: 'cell', before: 'the recovery checkpoint' },
  'restore.V5': { owner: 'cell', before: 'the commit of the old content' },
  'restore.V6': { owner: 'cell', before: 'the machine is killed' },
  'restore.V6a': { owner: 'cell', before: 'the restore' },
  'restore.V6b': { owner: 'cell', before: 'the commit of running' },
  'restore.V6c': { owner: 'cell', before: 'its packets may leave' },
  'restore.V7': { owner: 'cell', before: 'the operation succeeds' },
  'adopt.A1': { owner: 'api', before: 'the transaction that creates the operation' },
  'adopt.A2': { owner: 'cell', before: 'the gates are closed here' },
  'adopt.A3': { owner: 'cell', before: 'the capture of the fork' },
  'adopt.A4': { owner: 'cell', before: 'the recovery checkpoint' },
  'adopt.A5': { owner: 'cell', before: "the commit of the fork's content" },
  'adopt.A6': { owner: 'cell', before: 'the machine is killed' },
  'adopt.A6a': { owner: 'cell', before: 'the restore' },
  'adopt.A6b': { owner: 'cell', before: 'the commit of running' },
  'adopt.A6c': { owner: 'cell', before: 'its packets may leave' },
  'adopt.A7': { owner: 'cell', before: 'the transaction that deletes the fork' },
  'adopt.A8': { owner: 'cell', before: 'the operation succeeds' },
  'delete.D1': { owner: 'api', before: 'the transaction that deletes' },
  'delete.D2': { owner: 'api', before: 'the answer' },
  'delete.D3': { owner: 'cell', before: 'the gateway is told' },
  'delete.D4': { owner: 'cell', before: 'the machine is killed' },
  'delete.D5': { owner: 'cell', before: 'its files are removed' },
  'delete.D6': { owner: 'cell', before: 'the operation succeeds' },
  'tree.T0': { owner: 'cell', before: 'the contents of a revision are stored' },
  'tree.T1': { owner: 'cell', before: 'the commit of a revision, whose contents are stored' },
  'tree.T2': { owner: 'cell', before: 'the answer of a revision that is committed' },
  'tree.T3': { owner: 'cell', before: 'what no revision names is removed' },
  'execution.E1': { owner: 'cell', before: 'the record of an execution' },
  'execution.E2': { owner: 'cell', before: 'room for its machine is taken' },
  'execution.E3': { owner: 'cell', before: 'the command is run' },
  'execution.E4': { owner: 'cell', before: 'what it changed is stored' },
  'execution.E5': { owner: 'cell', before: 'the next tree is stored' },
  'execution.E6': { owner: 'cell', before: 'the commit of revision and result' },
  'execution.E7': { owner: 'cell', before: 'the answer' },
  'template_build.B1': { owner: 'api', before: 'the transaction that creates a build with its operations' },
  'template_build.B2': { owner: 'cell', before: 'the layer is made' },
  'template_build.B3': { owner: 'cell', before: 'the commit of a version and of its build' },
  'template_build.B4': { owner: 'cell', before: 'the machine of a step of a recipe starts' },
  'template_build.B5': { owner: 'cell', before: 'the layer of a step of a recipe is made' },
  'template_build.B6': { owner: 'cell', before: 'the layer of a step is noted' },
  'layer_collect.L1': { owner: 'cell', before: 'layers that nothing names are removed' },
  'layer_collect.L2': { owner: 'cell', before: 'it is noted that they are gone' },
  'draft_state.D1': { owner: 'api', before: 'the transaction that creates a state of a draft with its operation' },
  'draft_state.D2': { owner: 'cell', before: 'the layer of a state is made for a test instance' },
  'draft_state.D3': { owner: 'cell', before: 'the commit of the layers that a test instance begins with' },
  'warm.W1': { owner: 'cell', before: 'a machine is started up ahead' },
  'warm.W2': { owner: 'cell', before: 'it is saved' },
  'warm.W3': { owner: 'cell', before: 'the commit that opens may restore it' },
  'warm.W4': { owner: 'cell', before: 'an open restores it' },
  'volume_create.V1': { owner: 'api', before: 'the transaction that creates volume and operation' },
  'volume_create.V2': { owner: 'cell', before: 'the storage is made' },
  'volume_create.V4': { owner: 'cell', before: 'the commit of available' },
  'volume_delete.W1': { owner: 'api', before: 'the transaction that deletes' },
  'volume_delete.W3': { owner: 'cell', before: 'it is taken from machines and removed' },
  'volume_delete.W4': { owner: 'cell', before: 'the commit of deleted' },
  'volume_attach.A1': { owner: 'cell', before: 'the machine gets it' },
  'volume_attach.A2': { owner: 'cell', before: 'the commit of attached' },
  'volume_detach.A1': { owner: 'cell', before: 'the machine loses it' },
  'volume_detach.A2': { owner: 'cell', before: 'the commit of detached' },
  'hibernate.H1': { owner: 'cell', before: 'the checkpoint' },
  'hibernate.H2': { owner: 'cell', before: 'the commit of hibernated' },
  'hibernate.H3': { owner: 'cell', before: 'the machine is killed' },
  'wake.W1': { owner: 'cell', before: 'the look for room' },
  'wake.W2': { owner: 'cell', before: 'the restore' },
  'wake.W3': { owner: 'cell', before: 'the commit of resident' },
  'wake.W4': { owner: 'cell', before: 'its packets may leave' },
} as const satisfies Record<string, { owner: 'api' | 'cell'; before: string }>

export type FailpointName = keyof typeof FAILPOINTS
export type FailpointAction = 'kill9' | 'stop' | 'throw'

/** Thrown by the action `throw`. The surrounding code treats it as a bug. */
export class FailpointError extends Error {
  constructor(name: FailpointName) {
    super(`Failpoint ${name}`)
  }
}

export type FailpointHit = (name: FailpointName) => Promise<void> | void

const armed = new Map<FailpointName, FailpointHit>()

/** Costs one check of an empty map if no failpoint is armed. */
export function failpoint(name: FailpointName): Promise<void> | void {
  return armed.size === 0 ? undefined : armed.get(name)?.(name)
}

/** Arms a failpoint for tests inside this process. Disposing the result disarms it. */
export function armFailpoint(name: FailpointName, hit: FailpointHit): Disposable {
  armed.set(name, hit)
  return { [Symbol.dispose]: () => void armed.delete(name) }
}

/**
 * Arms a list such as `suspend.S8:kill9,resume.R6:throw`. With `@/path/of/a/marker` appended, an action happens once: it creates the marker
 * file first, and does nothing if the file exists.
 * The marker lets a supervised process run after its restart. Failpoints that begin with `hostd/` are ignored.
 * @param options.test_switch whether a test started the process. Without it a spec is an error, since an armed service would kill itself in
 * production.
 */
export function armFailpoints(spec: string, options: { test_switch: boolean }): void {
  if (spec === '') return
  if (!options.test_switch) throw new Error('Failpoints are set, but this is not a test: refusing to start')
  const ours = spec.split(',').filter((point) => !point.startsWith('hostd/'))
  for (const { name, action, marker } of ours.map(parsePoint)) armed.set(name, () => act(name, action, marker))
}

export function listFailpoints(): string {
  return Object.entries(FAILPOINTS)
    .map(([name, { owner, before }]) => `${name}\t${owner}\tbefore ${before}\n`)
    .join('')
}

const POINT = /^([a-z_]+\.[A-Z][0-9]+[a-z]?):(kill9|stop|throw)(?:@(\/.+))?$/

function parsePoint(text: string): { name: FailpointName; action: FailpointAction; marker: string | undefined } {
  const [, name, action, marker] = POINT.exec(text) ?? []
  if (name === undefined || action === undefined) throw new Error(`${text} is not <failpoint>:<kill9|stop|throw>`)
  if (!isFailpoint(name)) throw new Error(`There is no failpoint ${name}`)
  return { name, action: action as FailpointAction, marker }
}

function isFailpoint(name: string): name is FailpointName {
  return Object.hasOwn(FAILPOINTS, name)
}

function act(name: FailpointName, action: FailpointAction, marker: string | undefined): void {
  if (marker !== undefined && !makeMarker(marker)) return
  if (action === 'throw') throw new FailpointError(name)
  process.kill(process.pid, action === 'kill9' ? 'SIGKILL' : 'SIGSTOP')
}

function makeMarker(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx'))
    return true
  } catch {
    return false // the marker exists: this failpoint has already acted
  }
}
