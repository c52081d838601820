// Runs the steps that the kernel command line names, and continues after a restart.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { openOutside } from './outside.ts'
import { BY_THEMSELVES, type Notes, RESTART, STEPS } from './steps.ts'

const PORT = '/dev/virtio-ports/berth.report'
const STATE_DIR = '/var/lib/berth-hosts'
const STATE = `${STATE_DIR}/state.json`

interface State {
  done: number
  notes: Notes
}

const words = new Map(
  readFileSync('/proc/cmdline', 'utf8')
    .trim()
    .split(' ')
    .map((word) => word.split('=', 2) as [string, string]),
)
const steps = (words.get('berth.steps') ?? '').split(',')
const tell = (event: object) => appendFileSync(PORT, `${JSON.stringify(event)}\n`)

mkdirSync(STATE_DIR, { recursive: true })
const state = readState()
openOutside()
for (; state.done < steps.length; state.done += 1) {
  const step = steps[state.done] ?? ''
  const started = performance.now()
  tell({ step })
  const ended = (outcome: object) => tell({ step, ...outcome, seconds: (performance.now() - started) / 1000 })
  try {
    const work = STEPS[step]
    if (work === undefined) throw new Error(`There is no step ${step}`)
    // This program does not survive the restart, so the step is marked as done first.
    if (step === RESTART) {
      writeState({ ...state, done: state.done + 1 })
      ended({ state: 'passed' })
      tell({ restarts: true })
    }
    await work({ notes: state.notes, tests: words.get('berth.tests') ?? '' })
    ended({ state: 'passed' })
  } catch (error) {
    ended({ state: 'failed', error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    if (!BY_THEMSELVES.includes(step)) break
  }
  writeState({ ...state, done: state.done + 1 })
}
tell({ end: true })
await setTimeout(600_000) // the program that started this computer ends it

function readState(): State {
  try {
    return JSON.parse(readFileSync(STATE, 'utf8')) as State
  } catch {
    return { done: 0, notes: {} }
  }
}

function writeState(next: State): void {
  writeFileSync(STATE, JSON.stringify(next))
}
