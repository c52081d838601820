/**
 * What random tests start from: the same in every run, so that a change is judged by what it changes. The long run draws a new one,
 * prints it, and gives it to all of its parts; `BERTH_TEST_SEED` repeats it, and `random` looks for something new.
 */
export function testSeed(asked = process.env['BERTH_TEST_SEED'] ?? '1'): number {
  const seed = asked === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(asked)
  if (!Number.isSafeInteger(seed)) throw new Error(`BERTH_TEST_SEED is ${asked}, not a number`)
  return seed
}
