import { generatorOf } from '../../support/seed.ts'

/** Seconds between activities, in order, for one kind of use. */
export interface Trace {
  name: string
  gaps: number[]
}

const MINUTE = 60
const HOUR = 3600
const DAY = 24 * HOUR

/** mulberry32: a trace is the same on every computer. */
export interface Random {
  uniform(from: number, to: number): number
  /** Log-normal. */
  around(median: number, spread: number): number
  /** Pareto: the smaller alpha, the longer the tail. */
  tail(least: number, alpha: number): number
}

export function randomOf(seed: number): Random {
  const next = generatorOf(seed)
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next())
  return {
    uniform: (from, to) => from + (to - from) * next(),
    around: (median, spread) => median * Math.exp(spread * normal()),
    tail: (least, alpha) => least / (1 - next()) ** (1 / alpha),
  }
}

export const TRACES_DAYS = 60

export function tracesOf(seed: number): Trace[] {
  return Object.entries(KINDS).map(([name, make], i) => ({ name, gaps: make(randomOf(seed * 1000 + i)) }))
}

const KINDS: Record<string, (random: Random) => number[]> = {
  'bursty agent': burstyAgent,
  'office-hours person': officePerson,
  'nightly cron': nightlyCron,
  'chat with long tails': chat,
  'check every 2 minutes': (random) => steady(random, 2 * MINUTE),
  'check every 20 minutes': (random) => steady(random, 20 * MINUTE),
  'agent that changes its ways': changing,
}

function untilOver(draw: (at: number) => number[], days = TRACES_DAYS): number[] {
  const gaps: number[] = []
  for (let at = 0; at < days * DAY;) {
    const drawn = draw(at)
    gaps.push(...drawn)
    at += drawn.reduce((sum, gap) => sum + gap, 0)
  }
  return gaps
}

function burstyAgent(random: Random): number[] {
  return untilOver(() => [
    ...Array.from({ length: Math.floor(random.uniform(20, 80)) }, () => random.around(6, 1.1)),
    random.uniform(0, 1) < 0.2 ? random.uniform(4 * HOUR, 14 * HOUR) : random.around(12 * MINUTE, 1),
  ])
}

function officePerson(random: Random): number[] {
  return untilOver((at) => {
    const in_day = at % DAY
    if (Math.floor(at / DAY) % 7 >= 5 || in_day >= 17.5 * HOUR) return [DAY - in_day + 9 * HOUR + random.around(10 * MINUTE, 0.5)]
    if (in_day < 9 * HOUR) return [9 * HOUR - in_day + random.around(10 * MINUTE, 0.5)]
    if (in_day > 12 * HOUR && in_day < 12.2 * HOUR) return [random.around(45 * MINUTE, 0.2)]
    return [random.uniform(0, 1) < 0.06 ? random.around(25 * MINUTE, 0.6) : random.around(45, 1.2)]
  })
}

function nightlyCron(random: Random): number[] {
  return untilOver(() => [...Array.from({ length: 40 }, () => random.around(4, 0.6)), DAY - random.uniform(0, 10 * MINUTE)])
}

function chat(random: Random): number[] {
  return untilOver(() => [Math.min(random.tail(15, 0.8), 3 * DAY)])
}

function steady(random: Random, every: number): number[] {
  return untilOver(() => [every * random.uniform(0.9, 1.1)])
}

function changing(random: Random): number[] {
  const half = TRACES_DAYS / 2
  return [
    ...untilOver(() => (random.uniform(0, 1) < 0.1 ? [random.uniform(2 * HOUR, 12 * HOUR)] : [random.around(50, 0.8)]), half),
    ...untilOver(() => [...Array.from({ length: 10 }, () => random.around(4, 0.6)), DAY / 4], half),
  ]
}
