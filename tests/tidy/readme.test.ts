// Claims of the README that the code can be asked about.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')
const README = read('README.md')
const LIMITS = /^## Known limits\n(.*?)^## /ms.exec(README)?.[1] ?? ''
const base = (JSON.parse(read('templates/base/recipe.json')) as { debian_packages: string[] }).debian_packages
const sources = (folder: string) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|go|py)$/.test(name) && !/test/.test(name))
    .map((name) => read(path.join(folder, name)))
    .join('\n')

/** What a limit says, and what would be otherwise if it no longer held. */
const HOLDS: readonly [says: string, holds: boolean][] = [
  ['syncs them with `find` and `sha256sum`', /\bfind\b/.test(sources('cli/src')) && sources('cli/src').includes('sha256sum')],
  ['Taxes are not computed', !/\btax(es)?\b/i.test(sources('service/core/billing'))],
  ['An archived template stays so', !APP_ROUTES.some(({ path: at }) => at.includes('unarchive'))],
  [
    'Accounts and organizations are deleted over the API',
    APP_ROUTES.some(({ method, path: at }) => method === 'DELETE' && at === '/v1/me'),
  ],
]

test('known limits of the README hold', () => {
  for (const [says, holds] of HOLDS) {
    assert.ok(LIMITS.includes(says), `the README does not say: ${says}`)
    assert.ok(holds, `no longer so: ${says}`)
  }
})

test('the README and the guide say the versions that the packages declare', () => {
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

test('no page says that rsync is missing in base, which has it', () => {
  for (const name of readdirSync(path.join(ROOT, 'docs/guides')))
    assert.doesNotMatch(read(`docs/guides/${name}`), /apt-get install[^\n]*rsync/)
})
