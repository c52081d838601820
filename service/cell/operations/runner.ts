import type { Listener } from '../../db/listen.ts'
import type { CellContext } from './job.ts'
import type { Signals } from './runner-jobs.ts'
import { runPass } from './runner-pass.ts'
import { newState, nextPassMs, shownState, type Group, type State } from './runner-state.ts'

export interface RunnerOptions {
  cell: CellContext
  listener: Listener
  signal: AbortSignal
  /** Called when an operation ended in a way that may have left orphans. */
  leftovers(): void
  groups?: Partial<Record<Group, number>>
}

export interface Runner {
  wake(): void
  /** Resolves after a pass that began after this call. */
  pass(): Promise<void>
  /** Resolves when no pass and no job runs. */
  idle(): Promise<void>
  /** Accepts no more work; resolves when the running jobs have ended. */
  drain(): Promise<void>
  state(): object
}

/** A failed pass is repeated after this time: the database may have been unavailable for a moment. */
const LOOK_FAILED_MS = 1000

interface PassLoop {
  readonly options: RunnerOptions
  readonly state: State
  readonly signals: Signals
  /** Resolves after the running pass and the requested one; null: no pass runs. */
  current: Promise<void> | null
  /** The requested pass, which has not begun; null: none. */
  next: PromiseWithResolvers<void> | null
  timer: NodeJS.Timeout | undefined
}

/** Runs the operations of one cell. Not this loop but the workspace holds ensure one operation per workspace at a time. */
export function startRunner(options: RunnerOptions): Runner {
  const { cell, signal } = options
  const state = newState()
  const signals: Signals = { wake: () => wake(loop), ended: () => jobEnded(loop) }
  const loop: PassLoop = { options, state, signals, current: null, next: null, timer: undefined }
  // Ignores notifications of operations that run here: their own jobs wrote them, and each job's end wakes the runner.
  const unheard = options.listener.on('berth_operation', (id) => {
    if (id === null || !state.jobs.has(id)) wake(loop)
  })
  const unfreed = cell.room.onReleased(() => {
    if (loop.current !== null || state.left_some) wake(loop)
  })
  const end = () => {
    unheard()
    unfreed()
    clearTimeout(loop.timer)
  }
  signal.addEventListener('abort', end, { once: true })
  wake(loop)
  return {
    wake: () => wake(loop),
    pass: () => pass(loop),
    idle: () => idle(loop),
    state: () => ({ looking: loop.current !== null, asked: loop.next !== null, has_timer: loop.timer !== undefined, ...shownState(state) }),
    async drain() {
      state.draining = true
      end()
      await settled(loop)
    },
  }
}

function wake(loop: PassLoop): void {
  pass(loop).catch(() => undefined) // logged in the loop; the timer retries
}

function pass(loop: PassLoop): Promise<void> {
  if (loop.options.signal.aborted || loop.state.draining) return Promise.resolve()
  loop.next ??= Promise.withResolvers<void>()
  const { promise } = loop.next
  loop.current ??= runPasses(loop)
  return promise
}

async function runPasses(loop: PassLoop): Promise<void> {
  const { options, state, signals } = loop
  const { cell, signal } = options
  while (loop.next !== null && !signal.aborted) {
    const asked: PromiseWithResolvers<void> = loop.next
    loop.next = null
    try {
      await runPass(options, state, signals)
      asked.resolve()
      schedule(loop, nextPassMs(state, cell.clock.now()))
    } catch (error) {
      state.left_some = true
      asked.reject(error)
      cell.log.warn({ err: error }, 'the operations could not be read')
      schedule(loop, LOOK_FAILED_MS)
    }
  }
  loop.next?.resolve()
  loop.next = null
  loop.current = null
}

function schedule(loop: PassLoop, ms: number): void {
  clearTimeout(loop.timer)
  if (loop.options.signal.aborted || loop.state.draining) return
  loop.timer = setTimeout(() => wake(loop), ms)
  loop.timer.unref()
}

/** Runs a pass if operations wait, or if a running pass counted the job's capacity as used. Any other pass would only delay the reply. */
function jobEnded(loop: PassLoop): void {
  const { state } = loop
  if (loop.current !== null || state.left_some || state.waiting.size > 0) wake(loop)
}

async function idle(loop: PassLoop): Promise<void> {
  const { jobs } = loop.state
  while (loop.current !== null || jobs.size > 0) {
    await loop.current
    await Promise.all([...jobs.values()].map(({ done }) => done))
  }
}

/** Does not wait for start-ups: they continue in their machines, and the next process of the cell waits for them. */
async function settled(loop: PassLoop): Promise<void> {
  for (;;) {
    await loop.current
    const jobs = [...loop.state.jobs.values()].filter(({ group }) => group !== 'startup')
    if (loop.current === null && jobs.length === 0) return
    await Promise.race(jobs.flatMap(({ done, moved }) => [done, moved]))
  }
}
