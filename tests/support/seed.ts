/**
 * Constant by default, so that a failure is due to a change. The long run draws one, prints it and passes it to all parts.
 * `BERTH_TEST_SEED` repeats a seed; `random` draws one.
 */
export function testSeed(asked = process.env['BERTH_TEST_SEED'] ?? '1'): number {
  const seed = asked === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(asked)
  if (!Number.isSafeInteger(seed)) throw new Error(`BERTH_TEST_SEED is ${asked}, not a number`)
  return seed
}

/** From 0, and below 1 (mulberry32). */
export function generatorOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
