import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { cachedBuild, run, timed } from './cached-build.mjs'

test('a finished build is not built again', async (t) => {
  const parent = await temporaryFolder(t)
  const build = ({ output }) => writeFile(join(output, 'result'), 'first')
  const folder = await cachedBuild({ parent, key: 'k', build })
  const again = await cachedBuild({ parent, key: 'k', build: () => assert.fail('built twice') })
  assert.equal(again, folder)
  assert.equal(await readFile(join(folder, 'result'), 'utf8'), 'first')
  assert.deepEqual(await readdir(parent), ['k'])
})

test('a long step reports progress until its end', async () => {
  const said = []
  let first
  const sign = new Promise((resolve) => (first = resolve))
  const log = (line) => {
    said.push(line)
    first()
  }
  await timed(log, 'it is built', () => sign, 5)
  const { length } = said
  assert.deepEqual(
    said.map((line) => line.replace(/[\d.]+/, 'N')),
    [...Array(length - 1).fill('it is built: not yet, after N s'), 'it is built (N s)'],
  )
  await assert.rejects(
    timed(log, 'it fails', () => Promise.reject(new Error('no')), 5),
    /no/,
  )
  await new Promise((resolve) => setTimeout(resolve, 30))
  assert.equal(said.length, length)
})

test('a failed build leaves nothing behind, and the next one starts from scratch', async (t) => {
  const parent = await temporaryFolder(t)
  const failing = async ({ output }) => {
    await writeFile(join(output, 'result'), 'half')
    throw new Error('no space')
  }
  await assert.rejects(cachedBuild({ parent, key: 'k', build: failing }), /no space/)
  assert.deepEqual(await readdir(parent), [])
  const folder = await cachedBuild({ parent, key: 'k', build: ({ output }) => writeFile(join(output, 'other'), '') })
  assert.deepEqual(await readdir(folder), ['other'])
})

test('of two concurrent builds one is kept, and both callers get it', async (t) => {
  const parent = await temporaryFolder(t)
  let started = 0
  let bothStarted
  const both = new Promise((resolve) => {
    bothStarted = resolve
  })
  const builder = (name) =>
    cachedBuild({
      parent,
      key: 'k',
      build: async ({ output }) => {
        if (++started === 2) bothStarted()
        await both
        await writeFile(join(output, 'a'), name)
        await writeFile(join(output, 'b'), name)
      },
    })
  const [first, second] = await Promise.all([builder('one'), builder('two')])
  assert.equal(first, second)
  assert.equal(await readFile(join(first, 'a'), 'utf8'), await readFile(join(first, 'b'), 'utf8'))
  assert.deepEqual(await readdir(parent), ['k'])
})

test('SIGTERM ends the children of a build, removes its folder and ends the builder', async (t) => {
  const parent = await temporaryFolder(t)
  const script = `
    import { cachedBuild } from ${JSON.stringify(import.meta.resolve('./cached-build.mjs'))}
    await cachedBuild({ parent: ${JSON.stringify(parent)}, key: 'k', build: async ({ run }) => {
      const sleeping = run('sh', ['-c', 'sleep 300 & echo $! > ${parent}/pid; wait'])
      await run('sh', ['-c', 'until test -s ${parent}/pid; do sleep 0.01; done'])
      console.log('building')
      await sleeping
    } })`
  const builder = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(builder.stdout, 'data')
  builder.kill('SIGTERM')
  const [, signal] = await once(builder, 'exit')
  assert.equal(signal, 'SIGTERM')
  assert.deepEqual(await readdir(parent), ['pid'])
  const pid = (await readFile(join(parent, 'pid'), 'utf8')).trim()
  assert.ok(await isGone(pid), `process ${pid} is still there`)
})

test('a command that takes too long is ended together with its children, and the error says so', async () => {
  await assert.rejects(
    run('sh', ['-c', 'echo started; sleep 300 & sleep 300'], { timeout_seconds: 0.2 }),
    /did not finish in 0\.2 seconds\.\nstarted/,
  )
})

test('the error of a failed command carries the end of its output', async () => {
  await assert.rejects(run('sh', ['-c', 'echo out; echo oops >&2; exit 3']), /sh -c ended with 3\.\n(out\noops|oops\nout)/)
})

async function temporaryFolder(t) {
  const path = await mkdtemp(join(tmpdir(), 'berth-cached-build-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  return path
}

// A zombie counts as ended: only its parent has not reaped it yet.
async function isGone(pid) {
  const state = await readFile(`/proc/${pid}/stat`, 'utf8').then(
    (line) => line.split(') ')[1][0],
    () => 'gone',
  )
  return state === 'gone' || state === 'Z'
}
