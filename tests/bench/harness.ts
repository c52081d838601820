/** Reference and subject alternate in short blocks (A B, B A). The result is the median of the pairs' ratios. */
export interface Row {
  row: number
  name: string
  title: string
  /** Column "ahead of every peer" of the performance table: a ratio of times (subject ÷ reference) or of rates. */
  bar: { at_most: number } | { at_least: number } | null
}

export interface Pairs {
  /** Returns one sample in milliseconds. A block takes samples for at most block_ms, and uses their median. */
  reference(): Promise<number>
  subject(): Promise<number>
}

export interface Options {
  /** Unit of a sample; default ms. */
  unit?: string
  pairs?: number
  block_ms?: number
  samples_max?: number
  /** Runs before the first measured one: a new service still compiles its code. */
  warm_ups?: number
}

const median = (values: number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}

async function block(sample: () => Promise<number>, { block_ms = 1000, samples_max = 50 }: Options): Promise<number> {
  const samples: number[] = []
  const end = performance.now() + block_ms
  do samples.push(await sample())
  while (performance.now() < end && samples.length < samples_max)
  return median(samples)
}

/** `rate` inverts the ratio, because higher is better. */
export async function measure(row: Row, work: Pairs, options: Options & { rate?: boolean } = {}): Promise<void> {
  await work.reference() // warm-up, dropped
  for (let i = 0; i < (options.warm_ups ?? 1); i++) await work.subject()
  const pairs = options.pairs ?? 9
  const references: number[] = []
  const subjects: number[] = []
  for (let pair = 0; pair < pairs; pair++) {
    // A B, then B A: a drift of speed affects both equally.
    if (pair % 2 === 0) references.push(await block(work.reference, options))
    subjects.push(await block(work.subject, options))
    if (pair % 2 === 1) references.push(await block(work.reference, options))
  }
  const ratios = subjects.map((subject, i) => {
    const reference = references[i] ?? Number.NaN
    return options.rate ? reference / subject : subject / reference
  })
  print(row, ratios, references, subjects, options.unit ?? 'ms')
}

/** Milliseconds against a limit in seconds, for the slowest or the median. */
export function printSeconds(
  name: string,
  title: string,
  samples_ms: number[],
  seconds_max: number,
  keeps: 'slowest' | 'median' = 'slowest',
): void {
  const seconds = samples_ms.map((ms) => Math.round(ms) / 1000).sort((a, b) => a - b)
  const worst = seconds.at(-1) ?? Number.NaN
  const judged = keeps === 'median' ? median(seconds) : worst
  console.log(`${title}: ${median(seconds)} s (${seconds[0] ?? Number.NaN}–${worst}), bar ≤ ${seconds_max} s of the ${keeps}`)
  console.log(JSON.stringify({ name, seconds, seconds_max, keeps, reached: judged <= seconds_max }))
}

function print(row: Row, ratios: number[], references: number[], subjects: number[], unit: string): void {
  const round = (value: number) => Math.round(value * 1000) / 1000
  const ratio = { median: round(median(ratios)), min: round(Math.min(...ratios)), max: round(Math.max(...ratios)) }
  const reached = row.bar === null ? null : 'at_most' in row.bar ? ratio.median <= row.bar.at_most : ratio.median >= row.bar.at_least
  const bar = row.bar === null ? '' : 'at_most' in row.bar ? `, bar ≤ ${row.bar.at_most}×` : `, bar ≥ ${row.bar.at_least}×`
  console.log(
    `${row.row} ${row.title}: ${ratio.median}× (${ratio.min}–${ratio.max})${bar}; subject ${round(median(subjects))} ${unit}, reference ${round(median(references))} ${unit}`,
  )
  console.log(
    JSON.stringify({
      row: row.row,
      name: row.name,
      ratio,
      bar: row.bar,
      reached,
      unit,
      subject: round(median(subjects)),
      reference: round(median(references)),
      pairs: ratios.length,
    }),
  )
}
