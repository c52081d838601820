// A file belongs to the first part that matches, so no file runs twice.
const acceptance = (...names) => new RegExp(`^tests/acceptance/(${names.join('|')})\\.test\\.`)

/** Runs in no part, because a single part observes too little for it. */
export const LEDGER = 'tests/ledger/ledger.test.ts'

export const SUITE_PARTS = [
  { name: 'suite-go', adds: 'the Go tests, one file of checks each', files: /^tools\/checks\/go-/ },
  { name: 'suite-histories', adds: 'hundreds of histories of each client', files: /^tests\/sdk\/histories/ },
  { name: 'suite-simulation', adds: 'a thousand simulated histories', files: /^tests\/(simulation|upgrade)\// },
  { name: 'suite-fuzz', adds: 'thousands of requests for each route', files: /^tests\/(fuzz|generated)\// },
  { name: 'suite-engine', adds: 'conformance of hostd and the agent', files: /^tests\/engine\// },
  {
    name: 'suite-failpoints',
    adds: 'every failpoint of the acceptance files',
    files: acceptance('(?:.*-)?failpoints', 'corrupt-checkpoint', 'deaths', 'wrong-database'),
  },
  {
    name: 'suite-interruptions',
    adds: 'forty histories of interruptions on real machines',
    files: acceptance('interruptions', 'cycles', 'after-delete', 'upgrade', 'rotation'),
  },
  {
    name: 'suite-templates',
    adds: "the platform's templates, hostile recipes, and the programs that they install",
    files: acceptance('platform.*', 'template-.*', 'hostile-recipes', 'save-as-template', 'installs', 'warm-templates', 'startup'),
  },
  {
    name: 'suite-clients',
    adds: 'adapters, browsers, guides and clients on real machines',
    files: acceptance('adapters', 'browser', 'cli.*', 'clients', 'guides', 'sdk.*', 'ssh', 'site', 'tour', 'tasks', 'git'),
  },
  {
    name: 'suite-pressure',
    adds: 'full disks, greedy tenants, hostile guests and machines that no caller uses',
    files: acceptance(
      'full-.*',
      'greedy-tenant',
      'hostile-guest',
      'isolation',
      'room',
      'residency',
      'hibernation',
      'idle',
      'without-memory',
    ),
  },
  { name: 'suite-machines', adds: 'every other promise that only a real machine keeps', files: /^tests\/acceptance\// },
  { name: 'suite-rules', adds: 'all that needs no machine, with more repetitions', files: /^/ },
]

export function suitePartOf(file) {
  return file === LEDGER ? undefined : SUITE_PARTS.find(({ files }) => files.test(file))?.name
}
