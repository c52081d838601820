import { availableParallelism } from 'node:os'
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'

export interface Weather {
  /** Factor of limits: 1 on an unloaded computer of reference speed, and never less. */
  slowness(): number
  /** Other work's share of the processors, 0 to 1. */
  taken(): number
  /** Without other work; 1 is the reference. */
  readonly speed: number
  close(): void
}

/** CPU time on the reference computer. */
const REFERENCE_MS = 200
const WORK_TURNS = 1_000_000
const LOOK_MS = 3000
/** A single sample is unreliable: another program may run for a second. */
const SMOOTHED = 0.4
/** Beyond this the computer counts as hung. */
const SLOWNESS_MAX = 20
const TICKS_PER_SECOND = 100

export function watchWeather(file: string, { look = procTimes, measure = measuredSpeed } = {}): Weather {
  const processors = availableParallelism()
  const first = { at_ms: performance.now(), ...look() }
  const speed = measure()
  let last = { at_ms: performance.now(), ...look() }
  let smoothed = takenBetween(first, last, processors)
  let [sum, looks] = [smoothed, 1]
  const slowness = () => slownessOf(speed, smoothed)
  const write = () => {
    writeFileSync(`${file}.new`, slowness().toFixed(2))
    renameSync(`${file}.new`, file)
  }
  const timer = setInterval(() => {
    const now = { at_ms: performance.now(), ...look() }
    const taken = takenBetween(last, now, processors)
    last = now
    smoothed += SMOOTHED * (taken - smoothed)
    sum += taken
    looks += 1
    write()
  }, LOOK_MS).unref()
  write()
  return { slowness, taken: () => sum / looks, speed, close: () => clearInterval(timer) }
}

export function weatherText({ slowness, taken, speed }: Pick<Weather, 'slowness' | 'taken' | 'speed'>): string {
  const others = `other work takes ${Math.round(taken() * 100)} % of the processors`
  return `Bounds are ${slowness().toFixed(1)} times those of a quiet computer: this one has ${speed.toFixed(2)} times its speed, and ${others}`
}

export function slownessOf(speed: number, taken: number): number {
  return Math.min(SLOWNESS_MAX, Math.max(1, 1 / speed) / Math.max(1 - taken, 1 / SLOWNESS_MAX))
}

interface Times {
  all_ms: number
  /** Of this run's processes. */
  own_ms: number
}

/** Other work's share, from 0 to 1. */
export function takenBetween(from: Times & { at_ms: number }, to: Times & { at_ms: number }, processors: number): number {
  const others_ms = to.all_ms - from.all_ms - Math.max(0, to.own_ms - from.own_ms)
  return Math.min(1, Math.max(0, others_ms / Math.max(1, (to.at_ms - from.at_ms) * processors)))
}

/**
 * An enclosed run sees only its own processes; the time of an ended process is added to its parent's. Without an enclosure all processes
 * count as the run's own, and the computer as unloaded.
 */
function procTimes(): Times {
  const [, user = 0, nice = 0, system = 0, , , irq = 0, soft = 0, steal = 0] = (
    /^cpu .*$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[0] ?? ''
  )
    .split(/\s+/)
    .map(Number)
  const own = readdirSync('/proc').reduce((sum, name) => sum + (/^\d+$/.test(name) ? ticksOf(name) : 0), 0)
  const ms = 1000 / TICKS_PER_SECOND
  return { all_ms: (user + nice + system + irq + soft + steal) * ms, own_ms: own * ms }
}

function ticksOf(pid: string): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  } catch {
    return 0 // the process has ended
  }
}

/** 1 is the reference speed. CPU time excludes other work. */
function measuredSpeed(): number {
  const counts: Record<number, number> = {}
  const before = process.cpuUsage()
  for (let at = 0, number = 1; at < WORK_TURNS; at += 1) {
    number = (Math.imul(number, 1_103_515_245) + 12_345) & 0x7fffffff
    counts[number % 1000] = (counts[number % 1000] ?? 0) + JSON.stringify([number]).length
  }
  const { user, system } = process.cpuUsage(before)
  return REFERENCE_MS / Math.max(1, (user + system) / 1000)
}
