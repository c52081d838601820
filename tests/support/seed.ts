/** What random tests start from: the same in every run, so that a change is judged by what it changes; `BERTH_TEST_SEED=random` looks for something new. */
export function testSeed(asked = process.env['BERTH_TEST_SEED'] ?? '1'): number {
  return asked === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(asked)
}
