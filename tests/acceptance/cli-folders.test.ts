import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync,
} from 'node:fs' // prettier-ignore
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import type { Context } from '../../cli/src/command.ts'
import { copy } from '../../cli/src/copy.ts'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { runBerth } from '../cli/served.ts'
import { builtCli } from '../support/built-clients.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

const run = promisify(execFile)
const MAIN = await builtCli()
const TIMEOUT = { timeout: patience(300_000) }

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
      if (mode === 'file_first') rmSync(path.join(here, 'out')) // a tree holds no link to outside
      const count = ODD.length + 5 + (mode === 'file_first' ? 0 : 1)
      assert.match(await berth('sync', here, `${key}:/home/user/p`), new RegExp(`^${count} carried .*, 0 deleted, 0 as before`))
      assert.match(await berth('sync', here, `${key}:/home/user/p`, '--delete'), new RegExp(`^0 carried .*, 0 deleted, ${count} as before`))
      assert.match(await berth('sync', `${key}:/home/user/p`, back), new RegExp(`^${count} carried`))
      await run('diff', ['-r', '--no-dereference', here, back])
      assert.deepEqual([readlinkSync(path.join(back, 'link')), statSync(path.join(back, 'run')).mode & 0o777], ['run', 0o755])

      writeFileSync(path.join(here, 'below', '-rf'), 'len') // as long as the old content
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

test('a folder larger than one request goes in several requests, and a repeated copy sends only missing files', TIMEOUT, async () => {
  await berth('open', 'several')
  const here = local('several')
  mkdirSync(path.join(here, 'locked'), { recursive: true })
  const filled = (name: string, mib: number) => void writeFileSync(path.join(here, name), Buffer.alloc(mib << 20, 'berth'))
  for (let n = 0; n < 280; n += 1) filled(`small-${n}`, 1)
  filled('large', 40)
  // One request may not be as large, although nearly all of it is a hole.
  writeFileSync(path.join(here, 'disk'), 'begin')
  truncateSync(path.join(here, 'disk'), 300 << 20)
  // These go into the second request, below a folder that its owner may not write to.
  for (const name of ['a', 'z']) filled(`locked/${name}`, 15)
  chmodSync(path.join(here, 'locked'), 0o555)
  assert.match(await berth('cp', here, 'several:/home/user/all'), /^286 entries, 681574400 bytes\n$/)
  const seen = async () => (await berth('exec', 'several', '--', 'sh', '-c', LOOK)).trim()
  assert.equal(await seen(), '284 681574400 555 sparse')
  await berth('exec', 'several', '--', 'sh', '-c', 'cd all && rm small-7 && echo x > small-8 && chmod 600 small-9')
  assert.match(await berth('cp', `${here}/.`, 'several:/home/user/all'), /^5 entries, 3145728 bytes; 281 files were there\n$/)
  assert.equal(await seen(), '284 681574400 555 sparse')
  await berth('delete', 'several')
})

const LOOK =
  'cd all && echo $(find . -type f | wc -l) $(find . -type f -exec cat {} + | wc -c) $(stat -c %a locked) $(test $(du -k disk | cut -f1) -lt 1024 && echo sparse)'

test('a copy in either direction continues after its connection breaks', TIMEOUT, async () => {
  await berth('open', 'breaks')
  const [here, back] = [local('breaks'), local('breaks-back')]
  makeFolder(here)
  let broken: string[] = []
  const breaking: typeof fetch = async (input, init) => {
    const at = `${init?.method ?? 'GET'} ${new URL(input).pathname.split('/').slice(4).join('/')}`
    if (!at.endsWith(' files/tar') || broken.includes(at)) return fetch(input, init)
    broken = [...broken, at]
    if (init?.body) return fetch(input, { ...init, body: cutAfter(init.body as ReadableStream<Uint8Array>, 5000) })
    const answer = await fetch(input, init)
    return new Response(answer.body && cutAfter(answer.body, 9 << 20), answer)
  }
  const client = new Berth({ url: service.base_url, apiKey: service.api_key, fetch: breaking })
  const said: string[] = []
  const context: Context = {
    ...{
      berth: () => client,
      flags: {},
      rest: [],
      dashes: false,
      json: true,
      profile: 'default',
      print: () => undefined,
      say: (text) => said.push(text),
    },
    async workspace(name) {
      const ws = await client.find(name)
      assert.ok(ws)
      return ws
    },
  }
  await copy(context, [here, 'breaks:/home/user/all'])
  await copy(context, ['breaks:/home/user/all', back])
  await run('diff', ['-r', '--no-dereference', here, back])
  assert.deepEqual(broken, ['PUT files/tar', 'GET files/tar'])
  assert.equal(statSync(path.join(back, 'run')).mode & 0o777, 0o755)
  assert.deepEqual(
    readdirSync(back).filter((name) => name.startsWith('.')),
    [],
  )
  await berth('delete', 'breaks')
})

function cutAfter(stream: ReadableStream<Uint8Array>, bytes: number): ReadableStream<Uint8Array> {
  let left = bytes
  return stream.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        if (chunk.length > left) return controller.error(new TypeError('terminated'))
        left -= chunk.length
        controller.enqueue(chunk)
      },
    }),
  )
}

test('a downloaded setuid program is not setuid', TIMEOUT, async () => {
  await berth('open', 'setuid')
  const made = await berth('exec', 'setuid', '--', 'sh', '-c', 'mkdir p && touch p/x && chmod 6755 p/x && stat -c %a p/x')
  assert.equal(made, '6755\n')
  await berth('cp', 'setuid:/home/user/p', local('setuid'))
  assert.equal(statSync(path.join(local('setuid'), 'x')).mode & 0o7777, 0o755)
  await berth('delete', 'setuid')
})

test('a download to a full disk leaves the folder unchanged', TIMEOUT, async () => {
  await berth('open', 'full')
  await berth('exec', 'full', '--', 'sh', '-c', 'mkdir f && echo new > f/old && head -c 8000000 /dev/zero > f/z')
  const disk = local('disk')
  mkdirSync(disk)
  const { code, stdout, stderr } = await runBerth(['cp', 'full:/home/user/f/.', disk], {
    env: env(),
    within: `mount -t tmpfs -o size=4m none '${disk}' && echo old > '${disk}/old' && "$@"; code=$?; ls -A '${disk}'; cat '${disk}/old'; exit $code`,
  })
  assert.deepEqual([code, stdout], [1, 'old\nold\n'])
  assert.match(stderr, /The disk is full here, and the folder is as it was/)
  await berth('delete', 'full')
})

test('on a terminal, cp and sync show their progress and erase it at the end', TIMEOUT, async () => {
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

test('a folder with a Dockerfile becomes a template that can be tested, published and opened', TIMEOUT, async () => {
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

test('a failed build exits with 1 and its reason, and a folder without a recipe is refused', TIMEOUT, async () => {
  mkdirSync(local('broken'))
  const none = await runBerth(['templates', 'build', 'broken', local('broken')], { env: env() })
  assert.match(none.stderr, /has neither recipe\.json nor Dockerfile/)
  writeFileSync(path.join(local('broken'), 'Dockerfile'), 'FROM base\nRUN echo about-to-fail; exit 3\n')
  const { code, stdout, stderr } = await runBerth(['templates', 'build', 'broken', local('broken')], { env: env() })
  assert.equal(code, 1)
  assert.match(stdout, /about-to-fail/)
  assert.match(stderr, /The build failed: /)
})
