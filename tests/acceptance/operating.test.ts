// Needs its own installation: every command printed for operators runs on it.
import assert from 'node:assert/strict'
import { globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createClient } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const PAGES = ['README.md', ...globSync('docs/operating/*.md', { cwd: ROOT })].map((page) => readFileSync(path.join(ROOT, page), 'utf8'))
const directory = mkdtempSync(path.join(tmpdir(), 'berth-operating-'))
const SETTINGS_FILE = path.join(directory, 'settings.json')
const EGRESS_FILE = path.join(directory, 'egress.json')
let service: Service
let own: Record<string, string>

before(async () => {
  service = await startService({ settings: { slot_memory_mib: 512 } })
  const { id } = await createClient(service.base_url, service.api_key).open('own', { caps: { memory_mib: 512 } })
  const { settings } = JSON.parse(readFileSync(path.join(ROOT, 'templates/base/recipe.json'), 'utf8')) as { settings: object }
  writeFileSync(SETTINGS_FILE, JSON.stringify(settings))
  writeFileSync(EGRESS_FILE, JSON.stringify({ mode: 'allow_all' }))
  own = { '01900000-0000-7000-8000-000000000000': id, 'settings.json': SETTINGS_FILE, 'egress.json': EGRESS_FILE }
})
after(async () => {
  rmSync(directory, { recursive: true, force: true })
  await service.stop()
})

const blocks = (language: string) =>
  PAGES.flatMap((text) => [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))]).map(([, block = '']) => block)
const names = (pattern: RegExp) => [...new Set(PAGES.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name)))]
const words = (command: string) => [...command.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare = '']) => quoted ?? own[bare] ?? bare)

test('every printed admin command succeeds', async () => {
  // Commands for systemd are tested where systemd runs: tests/hosts.
  const commands = names(/npm run (?:-s )?admin -- ([^#`\n]+)/g).filter(
    (command) => !command.includes('…') && !/\bservice (install|uninstall|status)\b/.test(command),
  )
  assert.ok(commands.length >= 12, commands.join('\n'))
  for (const command of commands) {
    const [asked = '', file] = command.trim().split(' > ')
    const printed = await service.admin(...words(asked)).catch((error: unknown) => assert.fail(`${command}: ${String(error)}`))
    if (file !== undefined) writeFileSync((own[file] = path.join(directory, file)), printed)
  }
})

test('every printed database query succeeds', async () => {
  const questions = blocks('sql')
  assert.ok(questions.length >= 1)
  for (const question of questions) await service.query(question)
})

test('every metric that the pages name exists', async () => {
  const roles = ['berth_api', 'berth_cell', 'berth_owner']
  const [seen, named] = [await service.metric_names(), names(/`(berth_[a-z_]+)/g).filter((name) => !roles.includes(name))]
  assert.ok(named.length >= 14, named.join())
  for (const name of named) assert.ok(seen.includes(name), name)
  const reasons = /`berth_machine_deaths_total` rises \| by reason: (.*?) \|/.exec(PAGES.join('\n'))?.[1]?.replaceAll('`', '')
  const counted = [...(await service.metrics('cell')).keys()].flatMap(
    (each) => /^berth_machine_deaths_total\{reason="(.*)"\}$/.exec(each)?.[1] ?? [],
  )
  assert.deepEqual(reasons?.split(', ').toSorted(), counted.toSorted())
})

test('the pages explain every check of the doctor', async () => {
  const { findings } = JSON.parse(await service.admin('doctor', '--json')) as { findings: { check: string }[] }
  const explained = names(/^\| ((?:`[a-z_]+`(?:, )?)+)/gm).flatMap((cell) => [...cell.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name))
  for (const { check } of findings) assert.ok(explained.includes(check), check)
})

test('each process keeps its own compile cache of Node, for one version', () => {
  const kept = globSync('compiled/*', { cwd: service.data_dir }).toSorted()
  assert.deepEqual(
    kept.map((name) => path.basename(name).replace(/-[0-9a-f]+$/, '')),
    ['api', 'cell'],
  )
  const [api, cell] = kept.map((name) => statSync(path.join(service.data_dir, name)))
  assert.deepEqual([(api?.mode ?? 0) & 0o777, (cell?.mode ?? 0) & 0o777, api?.uid === cell?.uid], [0o700, 0o700, false])
  for (const name of kept) assert.ok(globSync(`${name}/*/*`, { cwd: service.data_dir }).length > 10, name)
})

test('the kernel kills machines before processes of the service, and a process that is not root cannot gain a right', () => {
  const seen = (['postgres', 'hostd', 'api', 'cell'] as const).map((child) => {
    const of = (file: string) => readFileSync(`/proc/${service.pid(child)}/${file}`, 'utf8')
    const said = (name: string) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(of('status'))?.[1]
    return {
      child,
      score: of('oom_score_adj').trim(),
      is_root: said('Uid') === '0',
      no_new_privs: said('NoNewPrivs'),
      bounding: said('CapBnd'),
    }
  })
  // Without CAP_SYS_RESOURCE, as in some containers, the service cannot lower scores, and reports that. The kernel still kills machines
  // first.
  const held = BigInt(`0x${/^CapEff:\s+(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`)
  const expected = held & (1n << 24n) ? '-900' : readFileSync('/proc/self/oom_score_adj', 'utf8').trim()
  for (const { child, score, is_root, no_new_privs, bounding } of seen) {
    assert.equal(score, expected, child)
    assert.equal(is_root, child === 'hostd')
    if (!is_root) assert.deepEqual([no_new_privs, bounding], ['1', '0'.repeat(16)], child)
  }
})
