import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ensureRunsc, parseVersion, recipeKey } from './runsc.mjs'

const GO = { go_version: 'go1.26.3', go_platform: 'linux/amd64' }

test('the key follows the recipe, the Go version and the platform, but not the README or the tests', async (t) => {
  const recipe = await recipeFolder(t)
  const key = await recipeKey({ recipe, ...GO })
  assert.match(key, /^[0-9a-f]{32}$/)
  await writeFile(join(recipe, 'README.md'), 'other words')
  await writeFile(join(recipe, 'generate_test.go'), 'package main')
  assert.equal(await recipeKey({ recipe, ...GO }), key)
  assert.notEqual(await recipeKey({ recipe, ...GO, go_version: 'go1.26.4' }), key)
  assert.notEqual(await recipeKey({ recipe, ...GO, go_platform: 'linux/arm64' }), key)
  await writeFile(join(recipe, 'patches/speed/a.patch'), 'another change')
  assert.notEqual(await recipeKey({ recipe, ...GO }), key)
  await writeFile(join(recipe, 'patches/speed/a.patch'), 'a change')
  assert.equal(await recipeKey({ recipe, ...GO }), key)
  await writeFile(join(recipe, 'go.mod'), 'module other')
  assert.notEqual(await recipeKey({ recipe, ...GO }), key)
})

test('BERTH_RUNSC names the binary to use, and its version is read from it', async (t) => {
  const path = await fakeRunsc(t, 'echo "runsc version release-20260901.0"; echo "spec: 1.2.1"')
  assert.deepEqual(await ensureRunsc(never()), { path, version: 'release-20260901.0' })
})

test('a BERTH_RUNSC that is no runsc is refused', async (t) => {
  await fakeRunsc(t, 'echo "something else 1.0"')
  await assert.rejects(ensureRunsc(never()), /which does not print a runsc version/)
  process.env.BERTH_RUNSC = '/nowhere/runsc'
  await assert.rejects(ensureRunsc(never()), /which is not a file/)
})

test('the version is the word after "runsc version"', () => {
  assert.equal(parseVersion('runsc version berth-0123456789ab\nspec: 1.2.1\n'), 'berth-0123456789ab')
  assert.equal(parseVersion('version berth\n'), undefined)
})

async function recipeFolder(t) {
  const path = await mkdtemp(join(tmpdir(), 'berth-runsc-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  await writeFile(join(path, 'go.mod'), 'module a')
  await writeFile(join(path, 'generate.go'), 'package main')
  await writeFile(join(path, 'README.md'), 'words')
  await mkdir(join(path, 'patches/speed'), { recursive: true })
  await writeFile(join(path, 'patches/speed/a.patch'), 'a change')
  return path
}

async function fakeRunsc(t, script) {
  const path = join(await recipeFolder(t), 'runsc')
  await writeFile(path, `#!/bin/sh\n${script}\n`)
  await chmod(path, 0o755)
  const before = process.env.BERTH_RUNSC
  process.env.BERTH_RUNSC = path
  t.after(() => {
    if (before === undefined) delete process.env.BERTH_RUNSC
    else process.env.BERTH_RUNSC = before
  })
  return path
}

const never = () => ({ cache_dir: '/nowhere', log: () => assert.fail('something was built') })
