import type { Listener } from '../../db/listen.ts'
import { knownKind, type KnownKind } from './begin.ts'
import { markPending, usedCapacity } from './capacity-store.ts'
import { admit, plus } from './admission.ts'
import { abandon, attempt, refuse, take } from './attempt.ts'
import { operationError } from './errors.ts'
import type { CellContext, Job } from './job.ts'
import { listOpen, type Queued } from './queue-store.ts'
import type { OpenOperation } from './store.ts'
import type { Resources } from '../../db/schema.ts'

export interface RunnerOptions {
  cell: CellContext
  listener: Listener
  /** The whole computer, as its host says. */
  capacity(): Resources
  /** Fires when this process may no longer act for the cell. */
  signal: AbortSignal
  /** Told when an operation ended in a way that may have left something. */
  leftovers(): void
  groups?: Partial<Record<KnownKind['group'], number>>
}

export interface Runner {
  /** Looks for work; nothing waits for it. */
  wake(): void
  /** Resolves when a pass that began after this call has looked at every operation. */
  pass(): Promise<void>
  /** Resolves when nothing is being worked on. */
  idle(): Promise<void>
  /** Takes no more work; resolves when what is under way has ended. */
  drain(): Promise<void>
}

const GROUPS: Record<KnownKind['group'], number> = { start: 8, suspend: 4, delete: 8 }
/** Between two looks when nothing wakes the runner: no notification is lost for longer. */
const PASS_MS = 15_000
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5000

interface State {
  jobs: Map<string, { group: KnownKind['group']; done: Promise<void> }>
  /** Operations whose last attempt fell over, and when the next may be made. */
  waiting: Map<string, { wait_ms: number; until_ms: number }>
  /** The next end of a wait for room, of those that the last look saw. */
  deadline_at: Date | null
  /** Whether the last look left something that waits for room or for a place in its group. */
  left_some: boolean
  draining: boolean
}

/** Works off the operations of one cell. One at a time a workspace is the holds' doing, not this loop's. */
export function startRunner(options: RunnerOptions): Runner {
  const { cell, signal } = options
  const state: State = { jobs: new Map(), waiting: new Map(), deadline_at: null, left_some: false, draining: false }
  let current: Promise<void> | null = null
  let again: PromiseWithResolvers<void> | null = null
  let timer: NodeJS.Timeout | undefined

  const loop = async () => {
    while (again !== null && !signal.aborted) {
      const asked: PromiseWithResolvers<void> = again
      again = null
      try {
        await lookOnce(options, state, { wake, ended })
        asked.resolve()
      } catch (error) {
        state.left_some = true
        asked.reject(error)
        cell.log.warn({ err: error }, 'the operations could not be read')
      }
      schedule()
    }
    again?.resolve()
    again = null
    current = null
  }
  const pass = (): Promise<void> => {
    if (signal.aborted || state.draining) return Promise.resolve()
    again ??= Promise.withResolvers<void>()
    const { promise } = again
    current ??= loop()
    return promise
  }
  const schedule = () => {
    clearTimeout(timer)
    if (signal.aborted || state.draining) return
    timer = setTimeout(wake, nextLookMs(state, cell.clock.now()))
    timer.unref()
  }
  const wake = () => void pass().catch(() => undefined) // logged in the loop; the timer looks again
  // What a job's end gives free, another may wait for; a look that is under way may have counted before it. Else nothing has changed,
  // and a look would only stand in the way of whoever waits for the answer.
  const ended = () => {
    if (current !== null || state.left_some || state.waiting.size > 0) wake()
  }
  // What is said of an operation in hand is what its own job has written; the job wakes the runner when it ends.
  const stop = options.listener.on('berth_operation', (id) => {
    if (id === null || !state.jobs.has(id)) wake()
  })
  const idle = async () => {
    while (current !== null || state.jobs.size > 0) {
      await current
      await Promise.all([...state.jobs.values()].map(({ done }) => done))
    }
  }
  const end = () => {
    stop()
    clearTimeout(timer)
  }
  signal.addEventListener('abort', end, { once: true })
  wake()
  return {
    wake,
    pass,
    idle,
    async drain() {
      state.draining = true
      end()
      await idle()
    },
  }
}

function nextLookMs(state: State, now: Date): number {
  const now_ms = performance.now()
  const repeats = [...state.waiting.values()].map(({ until_ms }) => until_ms - now_ms)
  const deadlines = state.deadline_at === null ? [] : [state.deadline_at.getTime() - now.getTime()]
  return Math.max(Math.min(...repeats, ...deadlines, PASS_MS), RETRY_MS_MIN)
}

interface Signals {
  /** There may be something to begin. */
  wake(): void
  /** A job has ended. */
  ended(): void
}

/** One look at everything that is open: begin what may begin, in the order in which it was asked for. */
async function lookOnce(options: RunnerOptions, state: State, signals: Signals): Promise<void> {
  const { cell } = options
  forgetLook(state)
  // Asked before the rows are read: what is moved on the way between resident and parked may be another row afterwards.
  const moving = new Set(cell.parking.moving())
  const [all, taken] = await Promise.all([listOpen(cell.db, cell.cell_id), usedCapacity(cell.db, cell.cell_id, [...moving])])
  forgetDone(state, all)
  const open = all.filter(({ operation }) => !state.jobs.has(operation.id) && !isWaiting(state, operation.id))
  let used = taken
  for (const queued of open) {
    const { operation } = queued
    if (options.signal.aborted || state.draining) return
    if (waitsForMove(cell, operation, moving, signals.wake)) continue
    try {
      const reserved = await beginOne(options, state, queued, used, signals)
      if (reserved !== null) used = plus(used, reserved)
    } catch (error) {
      fellOver(options, state, operation, error)
    }
  }
  // What is hibernated gives its room back when its machine is dead, and no row says when that is.
  if (state.left_some) for (const id of moving) void cell.parking.still(id).then(signals.wake)
}

/** No operation begins beside a move; none of those begins where an operation holds the workspace, so this wait is a short one. */
function waitsForMove(cell: CellContext, operation: OpenOperation, moving: ReadonlySet<string>, wake: () => void): boolean {
  const moved = [operation.workspace_id, operation.source_workspace_id].filter((id) => id !== null && moving.has(id))
  for (const id of moved) if (id !== null) void cell.parking.still(id).then(wake)
  return moved.length > 0
}

/** @returns the room that it has newly taken. Claims are made one after the other, so that no two count on the same room. */
async function beginOne(
  options: RunnerOptions,
  state: State,
  { operation, row }: Queued,
  used: Resources,
  signals: Signals,
): Promise<Resources | null> {
  const known = knownKind(operation)
  const job = jobOf(options, operation)
  if (known === undefined) {
    await abandon(job, operationError('internal_error', 'This cell does not know the operation'))
    return null
  }
  if (!hasPlace(options, state, known)) {
    state.left_some = true
    return null
  }
  const room = await admitted(job, known, row.ceilings, { host: options.capacity(), used }, state)
  if (room === 'not_yet') return null
  const begun = await take(job, known, room, row)
  if (begun === undefined) options.leftovers()
  else launch(options, state, { ...job, ...begun }, known, signals)
  return room
}

/** What the start reserves, null when it needs no room of its own, or that it has to wait. Smaller ones behind it may pass. */
async function admitted(
  job: Job,
  known: KnownKind,
  required: Resources,
  room: { host: Resources; used: Resources },
  state: State,
): Promise<Resources | null | 'not_yet'> {
  const { cell, operation } = job
  if (!known.starts || operation.state === 'running') return null
  const now = cell.clock.now()
  const answer = admit({ required, ...room, created_at: operation.created_at, now })
  switch (answer.kind) {
    case 'admit':
      return required
    case 'refuse':
      await refuse(job, known.kind, answer.error)
      return 'not_yet'
    case 'wait':
      state.left_some = true
      if (state.deadline_at === null || answer.deadline_at < state.deadline_at) state.deadline_at = answer.deadline_at
      // Of one that waits already nothing changes: many that wait must not make each look a long one.
      if (operation.state === 'queued') await markPending(cell.db, operation, now, answer.deadline_at, answer.error)
      return 'not_yet'
  }
}

function jobOf({ cell, signal }: RunnerOptions, operation: OpenOperation): Job {
  return { cell, operation, signal }
}

function launch(options: RunnerOptions, state: State, job: Job, known: KnownKind, signals: Signals): void {
  const { operation } = job
  const work = async () => {
    try {
      const ended = await attempt(job, known)
      state.waiting.delete(operation.id)
      if (ended === 'lost') options.leftovers()
    } catch (error) {
      fellOver(options, state, operation, error)
    }
    state.jobs.delete(operation.id)
    signals.ended()
  }
  const { promise: entered, resolve: enter } = Promise.withResolvers<void>()
  state.jobs.set(operation.id, { group: known.group, done: entered.then(work) })
  enter()
}

/** The attempt says nothing about the operation (the database was away, a mistake of ours): another is made later. */
function fellOver(options: RunnerOptions, state: State, operation: OpenOperation, error: unknown): void {
  if (options.signal.aborted) return
  options.cell.log.error(
    { operation_id: operation.id, kind: operation.kind, attempt: operation.attempt, err: error },
    'an attempt fell over',
  )
  const wait_ms = Math.min((state.waiting.get(operation.id)?.wait_ms ?? RETRY_MS_MIN / 2) * 2, RETRY_MS_MAX)
  state.waiting.set(operation.id, { wait_ms, until_ms: performance.now() + wait_ms })
}

function hasPlace(options: RunnerOptions, state: State, known: KnownKind): boolean {
  const running = [...state.jobs.values()].filter(({ group }) => group === known.group).length
  return running < (options.groups?.[known.group] ?? GROUPS[known.group])
}

function isWaiting(state: State, operation_id: string): boolean {
  return (state.waiting.get(operation_id)?.until_ms ?? 0) > performance.now()
}

function forgetLook(state: State): void {
  state.deadline_at = null
  state.left_some = false
}

function forgetDone(state: State, open: Queued[]): void {
  const ids = new Set(open.map(({ operation }) => operation.id))
  for (const id of state.waiting.keys()) if (!ids.has(id)) state.waiting.delete(id)
}
