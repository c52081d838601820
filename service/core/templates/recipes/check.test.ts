import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Recipe } from '../../../../contract/schemas/recipes.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { recipeIssues } from './check.ts'
import { planEgress, planSteps } from './plan.ts'

const reasons = (recipe: Recipe, has_upload = false) => recipeIssues(recipe, has_upload).map(({ path, reason }) => `${path} ${reason}`)
const many = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one)

test('each problem of a recipe is reported with its reason and its path', () => {
  const host = { mode: 'auto', extra_hosts: many(LIMITS.build.hosts_max + 1, 'a.example.com') } as const
  const cases: [Recipe, string[]][] = [
    [{ base: 'base' }, []],
    [{}, ['base base_required']],
    [{ base: 'Base@0' }, ['base invalid_recipe']],
    [{ base: 'upload:01920000-0000-7000-8000-000000000000' }, []],
    [{ base: 'upload:../x' }, ['base invalid_recipe']],
    [{ base: 'a', packages: ['git', 'git=1:2.39*', 'Git', 'a;b'] }, ['packages.2 invalid_package', 'packages.3 invalid_package']],
    [{ base: 'a', languages: [{ name: 'node' }, { name: 'node', version: '22' }] }, ['languages.1 language_conflict']],
    [
      { base: 'a', languages: [{ name: 'cobol' }, { name: 'node', version: '3' }] },
      ['languages.0 language_unavailable', 'languages.1 language_unavailable'],
    ],
    [{ base: 'a', files: [{ path: 'x', content: '' }] }, ['files.0.path invalid_path']],
    [{ base: 'a', files: [{ path: '/a/../b', content: '' }] }, ['files.0.path invalid_path']],
    [{ base: 'a', files: [{ path: '//etc//hosts', content: '' }] }, ['files.0.path platform_owned_path']],
    [
      { base: 'a', files: [{ path: '/a' }, { path: '/b', content: '', content_base64: '' }] },
      ['files.0 invalid_recipe', 'files.1 invalid_recipe'],
    ],
    [{ base: 'a', files: many(LIMITS.build.files_max + 1, { path: '/a', content: '' }) }, ['files too_many_files']],
    [{ base: 'a', steps: many(LIMITS.build.steps_max + 1, { run: 'true' }) }, ['steps too_many_steps']],
    [{ base: 'a', steps: [{ copy: ['a'], to: '/b' }] }, ['steps.0 upload_required']],
    [{ base: 'a', egress: { mode: 'deny_all', extra_hosts: ['a.example.com'] } }, ['egress.extra_hosts extra_hosts_without_auto']],
    [{ base: 'a', egress: { mode: 'auto', allow_hosts: ['a.example.com'] } }, ['egress.allow_hosts allow_hosts_without_allowlist']],
    [{ base: 'a', egress: { mode: 'allowlist' } }, ['egress.allow_hosts allowlist_empty']],
    [
      { base: 'a', egress: { mode: 'allowlist', allow_hosts: ['10.0.0.1', 'localhost'] } },
      ['egress.allow_hosts.0 invalid_host', 'egress.allow_hosts.1 invalid_host'],
    ],
    [{ base: 'a', egress: host }, ['egress too_many_hosts']],
    [{ base: 'a', files: [{ path: '/a', content: 'x'.repeat(LIMITS.build.recipe_bytes_max) }] }, [' recipe_too_large']],
  ]
  for (const [recipe, expected] of cases) assert.deepEqual(reasons(recipe), expected)
  assert.deepEqual(reasons({ base: 'a', steps: [{ copy: ['../x', 'a'], to: '/b' }] }, true), ['steps.0.copy.0 invalid_path'])
  assert.deepEqual(reasons({ base: 'a', steps: [{ run: 'x', cwd: 'y' }] }), ['steps.0.cwd invalid_path'])
})

test('packages and languages come before files, and files before the steps', () => {
  const steps = planSteps(
    {
      packages: ['git'],
      languages: [{ name: 'python' }, { name: 'node', version: '22' }],
      files: [{ path: '/a', content: 'é' }],
      steps: [{ run: 'echo $A' }, { copy: ['.'], to: '/srv' }, { run: ['x'], env: { A: '3' }, user: 'user', cwd: '/srv' }],
      env: { A: '2' },
    },
    { A: '1', PATH: '/bin' },
  )
  assert.deepEqual(
    steps.map(({ kind, title }) => `${kind}: ${title}`),
    [
      'run: install git python3 python3-pip python3-venv',
      'run: install node@22',
      'files: write 1 files',
      'run: echo $A',
      'copy: copy . to /srv',
      'run: x',
    ],
  )
  assert.deepEqual(steps[3], {
    kind: 'run',
    title: 'echo $A',
    argv: ['/bin/sh', '-ec', 'echo $A'],
    cwd: '/',
    user: 'root',
    env: { A: '2', PATH: '/bin' },
    timeout_seconds: 600,
  })
  assert.deepEqual(steps[5], {
    kind: 'run',
    title: 'x',
    argv: ['x'],
    cwd: '/srv',
    user: 'user',
    env: { A: '3', PATH: '/bin' },
    timeout_seconds: 600,
  })
})

test('Debian packages come from the configured mirror, and security updates from Debian', () => {
  const [step] = planSteps({ packages: ['git'] }, {}, "http://mirror.example.org/a&b'c/")
  assert.ok(step?.kind === 'run')
  const script = String(step.argv[2])
  const folder = mkdtempSync('/tmp/berth-sources-')
  try {
    mkdirSync(`${folder}/sources.list.d`)
    writeFileSync(
      `${folder}/sources.list`,
      'deb http://deb.debian.org/debian bookworm main\ndeb http://security.debian.org/debian-security x main\n',
    )
    writeFileSync(`${folder}/sources.list.d/more.sources`, 'Types: deb\nURIs: http://deb.debian.org/debian/\nSuites: bookworm\n')
    const here = script.replaceAll('/etc/apt', folder).replaceAll('/tmp/.berth-sources', `${folder}/out`)
    const fake = `apt-get() { printf '%s\\n' "$*"; }; exec() { "$@"; }; ${here}`
    const said = execFileSync('/bin/bash', ['-c', fake, 'install', 'git'], { encoding: 'utf8' })
    const text = (name: string) => readFileSync(`${folder}/out/${name}`, 'utf8')
    const mirror = 'http://mirror.example.org/a&b%27c'
    assert.equal(text('sources.list'), `deb ${mirror} bookworm main\ndeb http://security.debian.org/debian-security x main\n`)
    assert.equal(text('more.sources'), `Types: deb\nURIs: ${mirror}\nSuites: bookworm\n`)
    assert.match(said, /SourceList=\/dev\/null -o Dir::Etc::SourceParts=.*\/out update\n.* install git\n$/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a build reaches the package sources, the hosts that it names, or nothing', () => {
  assert.deepEqual(planEgress({ mode: 'deny_all' }).mode, 'deny_all')
  const auto = planEgress({ mode: 'auto', extra_hosts: ['Example.com', 'pypi.org'] }, 'http://mirror.example.org:3142/debian')
  assert.deepEqual(auto.rules.map(({ host }) => host), ['deb.debian.org', 'security.debian.org', 'registry.npmjs.org', 'pypi.org', 'files.pythonhosted.org', 'mirror.example.org', 'example.com']) // prettier-ignore
  assert.deepEqual(auto.rules.find(({ host }) => host === 'mirror.example.org')?.ports, [3142])
  assert.deepEqual(planEgress({ mode: 'allowlist', allow_hosts: ['a.example.com'] }).rules, [
    { host: 'a.example.com', ports: [80, 443], protocols: ['tcp'] },
  ])
})
