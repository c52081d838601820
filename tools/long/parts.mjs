// What the long run is made of. Each part can be run alone, and says what it adds to `npm test`.
const CHAOS_MINUTES = 30

/** Every part, in the order in which they run. `seed` is what all that is random starts from. */
export function longParts(seed) {
  const env = { BERTH_TEST_LONG: '1', BERTH_TEST_SEED: String(seed) }
  const part = (name, adds, command, more = {}) => ({ name, adds, command, env: { ...env, ...more } })
  return [
    part('suite', 'every test with more repetitions, a thousand simulated histories, thousands of requests a route', ['tools/test.mjs']),
    part('race', "all Go tests under Go's race detector", ['tools/test.mjs', 'go-plain', 'go-hostd', 'go-machines'], {
      BERTH_TEST_RACE: '1',
    }),
    part('lint', 'the rule of the linter that only eslint knows', ['node_modules/eslint/bin/eslint.js', '.', '--max-warnings', '0']),
    part('fuzz', 'each fuzz target of Go for a minute', ['tools/go-fuzz.mjs']),
    part('schemathesis', 'requests made from the OpenAPI description', ['tools/schemathesis.mjs']),
    part('failpoints', 'every failpoint in every mode, on real machines', ['tools/failpoints.mjs']),
    part('chaos', `${CHAOS_MINUTES} minutes of clients and kills`, [
      'tools/chaos.mjs',
      '--minutes',
      String(CHAOS_MINUTES),
      '--seed',
      String(seed),
    ]),
    part('hosts', 'the service on whole computers of several systems, in QEMU', ['tools/test-hosts.mjs']),
  ]
}
