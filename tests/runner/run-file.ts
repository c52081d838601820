import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { patience, patiently } from '../support/patience.ts'
import { failuresOf, hasFailed, outcomesOf, saidIn, type Outcome } from './outcomes.ts'
import { EVENTS_VARIABLE } from './record.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const RECORD = path.join(import.meta.dirname, 'record.ts')
/** Time to clean up. The runner removes the rest. */
const GRACE_MS = 60_000
const BOUND_LOOK_MS = 500
const OUTPUT_CHARACTERS_MAX = 16_000

export interface FileTask {
  /** Relative to the clone's root. */
  file: string
  /** Limit on an unloaded computer. */
  bound_ms: number
  imports: string[]
  env: NodeJS.ProcessEnv
  folder: string
}

export interface FileReport {
  file: string
  ms: number
  outcomes: Outcome[]
  failed: boolean
  output: string
  said: string[]
  folder: string
}

/** Ends the file at its limit, or when `signal` is aborted with a reason. */
export async function runFile({ file, bound_ms, imports, env, folder }: FileTask, signal: AbortSignal): Promise<FileReport> {
  mkdirSync(folder, { recursive: true })
  const began_ms = performance.now()
  const events = path.join(folder, 'events.jsonl')
  const printed = path.join(folder, 'output.txt')
  const output = openSync(printed, 'w')
  const flags = [
    '--disable-warning=ExperimentalWarning',
    ...imports.flatMap((module) => ['--import', module]),
    '--test-reporter',
    RECORD,
    '--test-reporter-destination',
    'stdout',
  ]
  // Its own process group ends with the programs that the file started.
  const child = spawn(process.execPath, [...flags, path.resolve(ROOT, file)], {
    cwd: ROOT,
    env: { ...env, [EVENTS_VARIABLE]: events },
    detached: true,
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  const bound = boundOf(bound_ms)
  const { ended_as, ended_early } = await endOf(child, AbortSignal.any([signal, bound.signal]))
  bound.clear()
  const noted = existsSync(events) ? readFileSync(events, 'utf8') : ''
  const outcomes = outcomesOf(noted)
  const text = readFileSync(printed, 'utf8').slice(-OUTPUT_CHARACTERS_MAX)
  const why = !ended_early
    ? undefined
    : signal.aborted
      ? `it was ended: ${String(signal.reason)}`
      : `it was not done within ${bound_ms / 60_000} minutes of a quiet computer, and was ended`
  const problem = why ?? problemOf(outcomes, ended_as, text)
  if (problem !== undefined) outcomes.push(fileFailure(file, problem))
  return { file, ms: performance.now() - began_ms, outcomes, failed: hasFailed(outcomes), output: text, said: saidIn(noted), folder }
}

export function fileFailure(file: string, note: string): Outcome {
  return { name: file, within: [], suite: false, end: 'failed', ms: 0, note }
}

export function notRun(file: string, folder: string, why: string): FileReport {
  const outcome: Outcome = { ...fileFailure(file, `not run: ${why}`), end: 'cancelled' }
  return { file, ms: 0, outcomes: [outcome], failed: true, output: '', said: [], folder }
}

function problemOf(outcomes: readonly Outcome[], ended_as: string, output: string): string | undefined {
  if (ended_as !== '0' && failuresOf(outcomes).every(({ end }) => end !== 'failed'))
    return `its process ended with ${ended_as}:\n${output.slice(-2000).trim()}`
  return outcomes.length === 0 ? 'it has no test' : undefined
}

function boundOf(bound_ms: number): { signal: AbortSignal; clear(): void } {
  const [end, goesOn] = [new AbortController(), patiently(bound_ms)]
  const timer = setInterval(() => {
    if (!goesOn()) end.abort()
  }, BOUND_LOOK_MS)
  return { signal: end.signal, clear: () => clearInterval(timer) }
}

async function endOf(child: ChildProcess, stop: AbortSignal): Promise<{ ended_as: string; ended_early: boolean }> {
  const timers: NodeJS.Timeout[] = []
  const end = () => {
    signalGroup(child, 'SIGTERM')
    timers.push(setTimeout(() => signalGroup(child, 'SIGKILL'), patience(GRACE_MS)))
  }
  if (stop.aborted) end()
  else stop.addEventListener('abort', end, { once: true })
  try {
    const ended_as = await new Promise<string>((resolve, reject) => {
      child.once('error', reject).once('exit', (code, signal) => resolve(String(code ?? signal)))
    })
    const ended_early = stop.aborted
    if (ended_early) signalGroup(child, 'SIGKILL') // programs that the file started may still run
    return { ended_as, ended_early }
  } finally {
    stop.removeEventListener('abort', end)
    for (const timer of timers) clearTimeout(timer)
  }
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error // ESRCH: the group has ended
  }
}
