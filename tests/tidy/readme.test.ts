import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { describedCommands } from '../../tools/reference/cli-page.ts'
import { patience } from '../support/patience.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')
const README = read('README.md')
const LIMITS = /^## Known limits\n(.*?)^## /ms.exec(README)?.[1] ?? ''
const sources = (folder: string) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|go|py)$/.test(name) && !/test/.test(name))
    .map((name) => read(path.join(folder, name)))
    .join('\n')

const proves = (file: string, title: string) => new RegExp(`^test\\(\\s*'${title}`, 'm').test(read(`tests/${file}`))

/** The condition fails when the limit is gone. A text says why the repository cannot decide it. */
const LIMITS_HELD: readonly [says: string, holds: boolean | string][] = [
  ['what is typed into a terminal while its connection breaks may be lost', 'input has no offsets in the protocol'],
  ['syncs them with `find` and `sha256sum`', /\bfind\b/.test(sources('cli/src')) && sources('cli/src').includes('sha256sum')],
  ['cannot carry file capabilities', "gVisor's files: nothing here decides it"],
  [
    "`df` there shows the computer's pool",
    !/volume/.test(read('machine/runsc/patches/correctness/a-disk-shows-its-own-size.patch').replaceAll(/^[^+].*$/gm, '')),
  ],
  [
    'locks on files of a',
    proves('acceptance/volumes.test.ts', 'a lock on a file of a volume works within a workspace, and not between workspaces'),
  ],
  ['go by address, not by the name in TLS', !/ClientHello/.test(sources('machine/internal/egress') + sources('machine/internal/network'))],
  ['Machines have IPv4 only', /func disableIPv6/.test(sources('machine/internal/network'))],
  ['has the address that its programs know', proves('acceptance/address.test.ts', 'a workspace keeps its address over suspend and resume')],
  ['into headers and queries: not into bodies', !/req\.Body\s*=\s*io\./.test(sources('machine/internal/secretproxy'))],
  ['counted nowhere', !/prometheus|counter/i.test(sources('machine/internal/secretproxy'))],
  ['so far only against a double of its API', existsSync(path.join(ROOT, 'tests/support/payment-double.ts'))],
  ['Taxes are not computed', !/\btax(es)?\b/i.test(sources('service/core/money/billing'))],
  ['share one `ports_url`', /^ {2}ports_url: \{/m.test(read('tools/setup/settings.mjs'))],
  ['File-first workspaces have', 'it says what there is'],
  ['images are not fetched from registries', sources('service/core/templates/recipes').includes('images of registries are not fetched')],
  [
    'share what its start-up drew at random',
    proves('acceptance/warm-templates.test.ts', 'an input of the start-up, a capture of another engine and a missing capture'),
  ],
  [
    'answered a few seconds later, and what lies in directories whose names are not UTF-8 is not listed',
    /utf8\.ValidString\(name\)/.test(read('machine/internal/layers/list.go')),
  ],
  ['An archived template stays so', !APP_ROUTES.some(({ path: at }) => at.includes('unarchive'))],
  [
    'Accounts and organizations are deleted over the API',
    APP_ROUTES.some(({ method, path: at }) => method === 'DELETE' && at === '/v1/me'),
  ],
  [
    'Usage of single workspaces is in no archive',
    proves('api/exports.test.ts', 'every table is in an export, or is left out for a reason'),
  ],
]

test('each known limit of the README holds, and each has its row here', () => {
  for (const [says, holds] of LIMITS_HELD) {
    assert.ok(LIMITS.includes(says), `the README does not say: ${says}`)
    assert.ok(holds, `no longer so: ${says}`)
  }
  const sentences = LIMITS.split(/^- |(?<=\.)\s+(?=[A-Z[`])/m).filter((sentence) => sentence.trim() !== '')
  assert.ok(sentences.length > 12)
  const free = sentences.filter((sentence) => !LIMITS_HELD.some(([says]) => sentence.includes(says)))
  assert.deepEqual(free, [])
})

test('the README lists the existing features of each client', () => {
  const commands = new Set(describedCommands().map(({ name }) => name))
  for (const [, name = ''] of README.matchAll(/`berth ([a-z-]+)`/g)) assert.ok(commands.has(name), name)
  const scripts = (JSON.parse(read('package.json')) as { scripts: Record<string, string> }).scripts
  for (const [, name = ''] of README.matchAll(/`?npm run (?:-s )?([a-z:-]+)/g)) assert.ok(scripts[name], name)
  for (const [, place = ''] of README.matchAll(/\]\(([\w./-]+)/g))
    assert.ok(place.startsWith('http') || existsSync(path.join(ROOT, place)), place)
})

test('each operator command in the README and the guides exists', () => {
  const words = ['--disable-warning=ExperimentalWarning', path.join(ROOT, 'service/admin/main.ts'), 'help']
  const usage = spawnSync(process.execPath, words, { encoding: 'utf8', timeout: patience(60_000) }).stderr.split('\n')
  const pagesOf = (folder: string) => readdirSync(path.join(ROOT, folder)).map((name) => `${folder}/${name}`)
  const seen = ['README.md', ...pagesOf('docs/guides'), ...pagesOf('docs/operating')].flatMap((page) =>
    [...read(page).matchAll(/npm run admin -- (?:--\S+ \S+ )*([a-z-]+)(?: ([a-z][a-z-]*))?/g)].map(([all, noun = '', verb = '']) => {
      const lines = usage.filter((line) => line.startsWith(`  npm run admin -- ${noun}`))
      return { all: `${page}: ${all}`, is_there: lines.some((line) => verb === '' || line.split(/[\s|]+/).includes(verb)) }
    }),
  )
  assert.ok(seen.length > 20)
  assert.deepEqual(seen.filter(({ is_there }) => !is_there), []) // prettier-ignore
})

test('the README and the guide name the versions that the packages declare', () => {
  const engines = (name: string) => (JSON.parse(read(name)) as { engines: { node: string } }).engines.node.replace(/[^\d.]/g, '')
  const python = /requires-python = ">=([\d.]+)"/.exec(read('sdk/python/pyproject.toml'))?.[1] ?? ''
  const [sdk, cli] = [engines('sdk/typescript/package.json'), engines('cli/package.json')]
  assert.equal(sdk, cli)
  const said = `The SDK for TypeScript and the command line need Node.js ${sdk} or newer`
  assert.ok(README.includes(`${said}, the SDK for Python ${python}.`))
  const guide = read('docs/guides/start.md')
  assert.ok(guide.includes(`${said};`))
  assert.ok(guide.includes(`The SDK for Python needs Python ${python} or newer.`))
})

test('no page claims that base lacks rsync, which it has', () => {
  const { debian_packages } = JSON.parse(read('templates/base/recipe.json')) as { debian_packages: string[] }
  assert.ok(debian_packages.includes('rsync'))
  for (const name of readdirSync(path.join(ROOT, 'docs/guides')))
    assert.doesNotMatch(read(`docs/guides/${name}`), /apt-get install[^\n]*rsync/)
})

test('an operator who puts --data-dir last is told where settings stand', { timeout: patience(30_000) }, () => {
  const words = ['organization', 'list', '--data-dir', '/nowhere']
  const { status, stderr } = spawnSync(process.execPath, [path.join(ROOT, 'tools/admin.mjs'), ...words], { encoding: 'utf8' })
  assert.equal(status, 1)
  assert.match(stderr, /npm run admin -- --data-dir FOLDER NOUN VERB/)
})
