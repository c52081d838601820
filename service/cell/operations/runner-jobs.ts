import { attempt } from './attempt.ts'
import type { KnownKind } from './begin.ts'
import type { Job } from './job.ts'
import type { RunnerOptions } from './runner.ts'
import { RETRY_MS_MIN, type PermitRequest, type State } from './runner-state.ts'
import type { OpenOperation } from './store.ts'
import { HostFailure } from '../host/hostd.ts'
import { LostRace } from '../machines/machine-row-store.ts'

const RETRY_MS_MAX = 5000
/** Short: the machine that occupies the capacity is about to end. */
const NO_ROOM_RETRY_MS_MAX = 500

export interface Signals {
  wake(): void
  /** A job has ended, or released its permit. */
  ended(): void
}

type Work = (waitsForGuest: () => void) => Promise<void>
type Taken = Pick<OpenOperation, 'id' | 'kind' | 'attempt'>

interface Launched {
  known: KnownKind
  organization_id: string
}

export function launch(options: RunnerOptions, state: State, job: Job, { known, organization_id }: Launched, signals: Signals): void {
  run(options, state, job.operation, { group: known.group, organization_id }, signals, async (waitsForGuest) => {
    try {
      if ((await attempt({ ...job, waitsForGuest }, known)) === 'lost') options.leftovers()
      if (known.waits_after) state.left_some = true // the write that ends this job sends no notification to this process
    } finally {
      state.ahead.delete(job.operation.id)
    }
  })
}

/** @param work rejects if the operation is to be attempted again. */
export function run(options: RunnerOptions, state: State, operation: Taken, place: PermitRequest, signals: Signals, work: Work): void {
  const { promise: moved, resolve: move } = Promise.withResolvers<void>()
  const waitsForGuest = () => {
    const known = state.jobs.get(operation.id)
    if (known === undefined || known.group === 'startup') return
    state.jobs.set(operation.id, { ...known, group: 'startup' })
    move()
    signals.ended() // its permit is released
  }
  const inTurn = async () => {
    try {
      await work(waitsForGuest)
      state.waiting.delete(operation.id)
    } catch (error) {
      if (!(error instanceof LostRace)) scheduleRetry(options, state, operation, error)
    }
    state.jobs.delete(operation.id)
    options.cell.room.released() // the job may have released capacity, or its reservation
    signals.ended()
  }
  const { promise: entered, resolve: enter } = Promise.withResolvers<void>()
  state.jobs.set(operation.id, { ...place, done: entered.then(inTurn), moved })
  enter()
}

/** Schedules another attempt after a failure that the operation did not cause (database unavailable, error of the service). */
export function scheduleRetry(options: RunnerOptions, state: State, operation: Taken, error: unknown): void {
  if (options.signal.aborted) return
  const { log } = options.cell
  const about = { operation_id: operation.id, kind: operation.kind, attempt: operation.attempt, err: error }
  const has_no_room = error instanceof HostFailure && error.code === 'no_capacity'
  if (has_no_room) log.info(about, 'the host has no capacity yet, and is asked again')
  else log.error(about, 'an attempt failed')
  const longest_ms = has_no_room ? NO_ROOM_RETRY_MS_MAX : RETRY_MS_MAX
  const wait_ms = Math.min((state.waiting.get(operation.id)?.wait_ms ?? RETRY_MS_MIN / 2) * 2, longest_ms)
  state.waiting.set(operation.id, { wait_ms, until_ms: performance.now() + wait_ms })
}
