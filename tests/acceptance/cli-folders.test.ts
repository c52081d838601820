import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { runBerth } from '../cli/served.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

const run = promisify(execFile)
const MAIN = path.resolve(import.meta.dirname, '../../cli/src/main.ts')
const TIMEOUT = { timeout: 300_000 }

let service: SharedService
let folder: string
before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'berth-folders-'))
  service = await sharedService()
})
after(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

const env = () => ({ BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key, BERTH_CONFIG_DIR: folder })
async function berth(...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await runBerth(words, { env: env() })
  assert.equal(code, 0, stderr)
  return stdout + stderr
}
const local = (name: string) => path.join(folder, name)
const ODD = ["it's", 'two\nlines', '-rf', ' space ', 'ü 漢字', '$(id)', 'a"b\\c']

/** A folder with all that folders have. */
function makeFolder(at: string): void {
  mkdirSync(path.join(at, 'empty'), { recursive: true })
  mkdirSync(path.join(at, 'below'))
  for (const name of ODD) writeFileSync(path.join(at, 'below', name), name)
  writeFileSync(path.join(at, 'run'), '#!/bin/sh\n', { mode: 0o755 })
  symlinkSync('run', path.join(at, 'link'))
  symlinkSync('/etc/passwd', path.join(at, 'out'))
  writeFileSync(path.join(at, 'large'), Buffer.alloc(20 << 20, 'berth'))
}

for (const mode of ['processful', 'file_first'])
  test(
    `a folder is carried to a ${mode} workspace and back, then only what changed, and deleted is what was asked for`,
    TIMEOUT,
    async () => {
      const [key, here, back] = [`sync-${mode}`, local(`from-${mode}`), local(`back-${mode}`)]
      await berth('open', key, '--mode', mode)
      makeFolder(here)
      if (mode === 'file_first') rmSync(path.join(here, 'out')) // a tree has no link that leads out of it
      const count = ODD.length + 5 + (mode === 'file_first' ? 0 : 1)
      assert.match(await berth('sync', here, `${key}:/home/user/p`), new RegExp(`^${count} carried .*, 0 deleted, 0 as before`))
      assert.match(await berth('sync', here, `${key}:/home/user/p`, '--delete'), new RegExp(`^0 carried .*, 0 deleted, ${count} as before`))
      assert.match(await berth('sync', `${key}:/home/user/p`, back), new RegExp(`^${count} carried`))
      await run('diff', ['-r', '--no-dereference', here, back])
      assert.deepEqual([readlinkSync(path.join(back, 'link')), statSync(path.join(back, 'run')).mode & 0o777], ['run', 0o755])

      writeFileSync(path.join(here, 'below', '-rf'), 'len') // as long as before
      chmodSync(path.join(here, 'run'), 0o700)
      rmSync(path.join(here, 'empty'), { recursive: true })
      writeFileSync(path.join(here, 'empty'), 'a file where a folder was')
      rmSync(path.join(here, 'below', 'two\nlines'))
      const planned = await berth('sync', here, `${key}:/home/user/p`, '--delete', '--dry-run')
      assert.match(planned, /^- empty\n\+ below\/-rf\n\+ empty\n\+ run\n- below\/two\\x0alines\n3 carried/)
      assert.match(await berth('sync', here, `${key}:/home/user/p`, '--delete'), /^3 carried .*, 1 deleted/)
      assert.match(await berth('sync', `${key}:/home/user/p`, back, '--delete'), /^3 carried .*, 1 deleted/)
      await run('diff', ['-r', '--no-dereference', here, back])
      assert.equal(readFileSync(path.join(back, 'empty'), 'utf8'), 'a file where a folder was')
      await berth('delete', key)
    },
  )

test('on a terminal, cp and sync show how far they are, and take it away', TIMEOUT, async () => {
  await berth('open', 'shown')
  writeFileSync(local('large'), Buffer.alloc(30 << 20, 'berth'))
  mkdirSync(local('shown'))
  writeFileSync(path.join(local('shown'), 'large'), Buffer.alloc(30 << 20, 'other'))
  for (const words of [
    `cp '${local('large')}' shown:/home/user/large`,
    `cp shown:/home/user/large '${local('again')}'`,
    `sync '${local('shown')}' shown:/home/user/shown`,
  ]) {
    const command = `stty cols 120; '${process.execPath}' --disable-warning=ExperimentalWarning '${MAIN}' ${words}`
    const { stdout } = await run('script', ['-qec', command, '/dev/null'], { env: { PATH: process.env['PATH'] ?? '', ...env() } })
    assert.match(stdout, /\[#{24}\] 100 %  30\.0 MiB/, words)
    assert.match(stdout, /\r\u001b\[K[^\r]*(bytes to|carried)/, words)
  }
  await berth('delete', 'shown')
})

test('a folder with a Dockerfile becomes a template, which is tried, published, and opened', TIMEOUT, async () => {
  const recipe = local('recipe')
  mkdirSync(recipe)
  writeFileSync(path.join(recipe, 'greeting'), 'hello from a folder\n')
  writeFileSync(path.join(recipe, 'Dockerfile'), 'FROM base\nARG WHO=nobody\nCOPY greeting /srv/\nRUN echo "to $WHO" >> /srv/greeting\n')
  const built = await berth('templates', 'build', 'from-folder', recipe, '--build-arg', 'WHO=you')
  assert.match(built, /==> step 2 of 2.*from-folder@1 is there; try it: berth templates test from-folder 1/s)
  assert.match(await berth('templates', 'test', 'from-folder', '1', '--', 'cat', '/srv/greeting'), /^hello from a folder\nto you\n/)
  writeFileSync(path.join(recipe, 'recipe.json'), JSON.stringify({ base: 'base', steps: [{ run: 'echo two > /srv/two' }] }))
  const json = await runBerth(['templates', 'build', 'from-folder', recipe, '--publish', '--json'], { env: env() })
  const second = JSON.parse(json.stdout) as { state: string; version: number; published: boolean }
  assert.deepEqual([second.state, second.version, second.published], ['succeeded', 2, true])
  await berth('open', 'of-folder', '--template', 'from-folder')
  assert.equal(await berth('exec', 'of-folder', '--', 'cat', '/srv/two'), 'two\n')
  await berth('delete', 'of-folder')
})

test('a build that fails ends with 1 and says why, and a folder without a recipe is none', TIMEOUT, async () => {
  mkdirSync(local('broken'))
  const none = await runBerth(['templates', 'build', 'broken', local('broken')], { env: env() })
  assert.match(none.stderr, /has neither recipe\.json nor Dockerfile/)
  writeFileSync(path.join(local('broken'), 'Dockerfile'), 'FROM base\nRUN echo about-to-fail; exit 3\n')
  const { code, stdout, stderr } = await runBerth(['templates', 'build', 'broken', local('broken')], { env: env() })
  assert.equal(code, 1)
  assert.match(stdout, /about-to-fail/)
  assert.match(stderr, /The build failed: /)
})
