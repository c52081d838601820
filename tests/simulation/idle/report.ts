import { adaptive, clairvoyant, FIXED_MINUTES, replay, total, type Cost } from './replay.ts'
import { TRACES_DAYS, tracesOf, type Trace } from './traces.ts'

const SEED = 1

export function idleReport(): void {
  console.log(`Idle timeouts over ${TRACES_DAYS} days: hours a machine is held idle / wakes suffered (both as one cost, in hours)`)
  const traces = tracesOf(SEED)
  for (const trace of traces) print(trace.name, [trace])
  print('all', traces)
}

function print(name: string, traces: Trace[]): void {
  const costs = costsOf(traces)
  const shown = Object.entries(costs).map(([rule, cost]) => `${rule} ${hours(cost.held_seconds)} h / ${cost.wakes} (${hours(total(cost))})`)
  console.log(`${name}: ${shown.join(', ')}`)
  const floor = traces.reduce((sum, { gaps }) => sum + clairvoyant(gaps), 0)
  console.log(JSON.stringify({ name: 'idle', trace: name, costs, clairvoyant_seconds: Math.round(floor) }))
}

function costsOf(traces: Trace[]): Record<string, Cost> {
  const sum = (rule: Parameters<typeof replay>[1]): Cost => {
    const costs = traces.map(({ gaps }) => replay(gaps, rule))
    const held_seconds = Math.round(costs.reduce((all, cost) => all + cost.held_seconds, 0))
    return { held_seconds, wakes: costs.reduce((all, cost) => all + cost.wakes, 0) }
  }
  const fixed = FIXED_MINUTES.map((minutes) => [`${minutes} min`, sum(() => minutes * 60)] as const)
  return { adaptive: sum(adaptive), ...Object.fromEntries(fixed) }
}

const hours = (seconds: number) => (seconds / 3600).toFixed(1)
