/**
 * What random tests start from: the same in every run, so that a change is judged by what it changes. The long run draws a new one,
 * prints it, and gives it to all of its parts; `BERTH_TEST_SEED` repeats it, and `random` looks for something new.
 */
export function testSeed(asked = process.env['BERTH_TEST_SEED'] ?? '1'): number {
  const seed = asked === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(asked)
  if (!Number.isSafeInteger(seed)) throw new Error(`BERTH_TEST_SEED is ${asked}, not a number`)
  return seed
}

/** Numbers from 0 up to 1, the same for the same seed (mulberry32). */
export function generatorOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
