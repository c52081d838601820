import type { FileReport } from './run-file.ts'

interface AllowedSkip {
  file: string
  what: RegExp
  because: string
}

const NEED_PYTHON = [
  'tests/sdk/python.test.ts',
  'tests/sdk/operations.test.ts',
  'tests/sdk/histories.test.ts',
  'tests/sdk/version-check.test.ts',
  'tests/acceptance/clients.test.ts',
  'tests/acceptance/command-lists.test.ts',
  'tests/acceptance/sdk-methods-python.test.ts',
  'tests/acceptance/tasks.test.ts',
  'tests/acceptance/template-drafts.test.ts',
  'tests/acceptance/watch.test.ts',
]

/** Any other skip fails a run of the whole suite, because skips are easily overlooked. */
export const ALLOWED_SKIPS: AllowedSkip[] = [
  {
    file: 'tools/checks/go-machines.test.mjs',
    what: /^internal\/cgroup .*: (this tree has no controllers|only v1 takes single threads)/,
    because: 'each of these tests runs on both versions of control groups, and a computer gives controllers to one of them',
  },
  {
    file: 'tests/acceptance/hostile-recipes.test.ts',
    what: /: npm run test:long$/,
    because: 'what takes all that it can get keeps the neighbours of a run waiting: the long run does it',
  },
  {
    file: 'tests/acceptance/platform-templates.test.ts',
    what: /: npm run test:long$/,
    because: 'building these templates takes minutes and some gigabytes: the long run does it',
  },
  {
    file: 'tests/acceptance/platforms.test.ts',
    what: /: npm run test:long$/,
    because: 'the programs of these platforms are some hundred megabytes: the long run fetches them',
  },
  {
    file: 'tests/acceptance/ssh.test.ts',
    what: /: no Debian packages: /,
    because: "rsync comes from Debian's archive, for the release that guests are, and Berth itself needs none",
  },
  {
    file: 'tests/cli/mcp-inspector.test.ts',
    what: /: npm run test:long$/,
    because: "the inspector is a browser's program as well, of some hundred megabytes: the long run fetches it",
  },
  ...NEED_PYTHON.map((file) => ({
    file,
    what: /: no Python packages: /,
    because: 'they come from PyPI during set-up, and Berth itself needs no Python on its host',
  })),
]

export function withoutSkips(report: FileReport): FileReport {
  const outcomes = report.outcomes.map((outcome) => {
    if (outcome.end !== 'skipped' || isAllowed(report.file, `${outcome.name}: ${outcome.note}`)) return outcome
    return { ...outcome, end: 'failed' as const, note: `a whole run may not skip it (tests/runner/skips.ts): ${outcome.note}` }
  })
  return { ...report, outcomes, failed: report.failed || outcomes.some(({ end }, at) => end !== report.outcomes[at]?.end) }
}

function isAllowed(file: string, what: string): boolean {
  return ALLOWED_SKIPS.some((each) => each.file === file && each.what.test(what))
}
