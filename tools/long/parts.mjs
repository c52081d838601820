// Parts of the long test run. Each part can run alone, and takes at most PART_MINUTES.
import { SUITE_PARTS } from './suite.mjs'

export const PART_MINUTES = 75
export const SUITE_PART_VARIABLE = 'BERTH_TEST_PART'
const CHAOS_MINUTES = 30
/** The modes of tests/chaos/points.ts. */
export const FAILPOINT_MODES = ['kill', 'kill_all', 'stop', 'throw']
const RACES = { plain: 'without machines', hostd: 'of hostd', machines: 'of the other packages with machines' }

/** @returns the parts in the order of execution. All randomness derives from `seed`. */
export function longParts(seed) {
  const env = { BERTH_TEST_LONG: '1', BERTH_TEST_SEED: String(seed) }
  const part = (name, adds, command, more = {}) => ({ name, adds, command, env: { ...env, ...more } })
  return [
    ...SUITE_PARTS.map(({ name, adds }) => part(name, adds, ['tools/test.mjs'], { [SUITE_PART_VARIABLE]: name })),
    ...Object.entries(RACES).map(([which, says]) =>
      part(`race-${which}`, `the Go tests ${says} under Go's race detector`, ['tools/test.mjs', `go-${which}`], { BERTH_TEST_RACE: '1' }),
    ),
    part('lint', 'the rule of the linter that only eslint knows', ['node_modules/eslint/bin/eslint.js', '.', '--max-warnings', '0']),
    part('fuzz', 'each fuzz target of Go for a minute', ['tools/go-fuzz.mjs']),
    part('schemathesis', 'requests made from the OpenAPI description', ['tools/schemathesis.mjs']),
    ...FAILPOINT_MODES.map((mode) =>
      part(`failpoints-${mode}`, `every failpoint in the mode ${mode}, on real machines`, ['tools/failpoints.mjs', '--modes', mode]),
    ),
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
