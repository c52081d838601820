import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { EXAMPLES } from './cli-notes.ts'
import { describedCommands } from './cli-page.ts'
import { clientPages } from './client-pages.ts'
import { pages } from './pages.ts'

const folder = join(import.meta.dirname, '../../docs/reference')

test('docs/reference is up to date with `npm run reference`', () => {
  const written = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
  assert.deepEqual(written, { ...pages(), ...clientPages() })
})

test('every export of the SDKs has a section, and every method a line', () => {
  const { 'typescript.md': typescript = '', 'python.md': python = '' } = clientPages()
  for (const name of ['Berth', 'Workspace', 'Command', 'Terminal', 'BerthError', 'CommandError']) {
    assert.ok(typescript.includes(`\n### ${name}\n`), name)
    assert.ok(python.includes(`\n### ${name}\n`), name)
  }
  for (const noun of ['Berth.secrets', 'Berth.templates', 'Workspace.git', 'Workspace.egress', 'Workspace.ports']) {
    assert.match(typescript, new RegExp(`\n#### ${noun}\n\n(?:[^-].*\n\n)?- \`\\w+\\(`), noun)
    assert.match(python, new RegExp(`\n#### ${noun}\n\n(?:[^-].*\n\n)?- \`\\w+\\(`), noun)
  }
  assert.match(typescript, /- `exec\(command: CommandLine, options\?: ExecOptions\): Promise<CommandResult>`: Runs a command/)
  assert.match(python, /- `exec\(command: str \| Sequence\[str\], .*\) -> CommandResult`: Runs a command/)
  // Private types and methods must not appear.
  assert.doesNotMatch(typescript, /\bGateway\b|\bManner\b|\bView\b|#\w+\(|\bany>|: any\b|(?<!api<T>\(.*)Promise<T>/)
  assert.doesNotMatch(python, /`_\w+\(|\bself\b/)
})

test('every command has a section with an example, every option is explained, and every example names a command that exists', () => {
  const { 'cli.md': cli = '' } = clientPages()
  const commands = describedCommands()
  const names = commands.map(({ name }) => name)
  assert.ok(names.includes('exec') && names.includes('templates build'))
  for (const { name, flags } of commands) {
    assert.ok(cli.includes(`\n## berth ${name}\n`), name)
    assert.ok(EXAMPLES[name], name)
    for (const [flag, { type, value, says }] of Object.entries(flags)) {
      assert.match(says, /^\S.*\w$/, `${name} --${flag}`)
      assert.equal(type === 'string', value !== undefined, `${name} --${flag}`)
      assert.ok(cli.includes(`| ${says} |`), `${name} --${flag}`)
    }
  }
  for (const [name, example] of Object.entries(EXAMPLES)) {
    assert.ok(names.includes(name), name)
    assert.ok(`${example} `.startsWith(`berth ${name} `), example)
  }
})

test('every route has a section, and every internal link has a target', () => {
  const all: Record<string, string> = { ...pages(), ...clientPages() }
  for (const [page, routes] of [
    ['application-api.md', APP_ROUTES],
    ['gateway.md', CELL_ROUTES],
  ] as const) {
    for (const route of routes) assert.ok(all[page]?.includes(`\n## ${route.method} ${route.path}\n`), route.id)
  }
  for (const [name, text] of Object.entries(all)) {
    for (const [, target = '', anchor] of text.matchAll(/\]\(([\w.-]*)(?:#([\w-]+))?\)/g)) {
      const page = all[target === '' ? name : target]
      assert.ok(page !== undefined, `${name}: ${target}`)
      const anchors = [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading))
      if (anchor !== undefined) assert.ok(anchors.includes(anchor), `${name}: ${target}#${anchor}`)
    }
  }
})

function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^a-z0-9 _-]/g, '')
    .replaceAll(' ', '-')
}
