import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { CLONE } from '../setup/packages.mjs'

const cwd = join(CLONE, 'machine')
const MODULE = 'github.com/berth-dev/berth/machine/'

test('go vet and gofmt find nothing in machine/', { timeout: 600_000 }, () => {
  const vet = spawnSync('go', ['vet', './...'], { cwd, encoding: 'utf8' })
  assert.equal(vet.status, 0, `${vet.error?.message ?? ''}${vet.stdout}${vet.stderr}`)
  const format = spawnSync('gofmt', ['-l', 'cmd', 'internal', 'runsc'], { cwd, encoding: 'utf8' })
  assert.equal(`${format.stdout}${format.stderr}`, '', 'these files are not written as gofmt writes them')
})

test('machine/', { timeout: 35 * 60_000 }, async (t) => {
  const { results, failed_packages } = await goTest()
  for (const { name, action, output } of results) {
    await t.test(name, (each) => {
      if (action === 'skip') each.skip(output.trim().split('\n').at(-2)?.trim())
      assert.notEqual(action, 'fail', output)
    })
  }
  assert.deepEqual(failed_packages, [])
})

/** Runs all Go tests, one package at a time: those that start machines want the computer for themselves; returns those of the first level, and the packages that failed with what they printed. */
async function goTest() {
  const child = spawn('go', ['test', '-json', '-p', '1', '-timeout', '30m', './...'], { cwd, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise((resolve, reject) => child.once('error', reject).once('close', resolve))
  const outputs = new Map()
  const results = []
  const failed_packages = []
  for await (const line of createInterface({ input: child.stdout })) {
    const event = parse(line)
    if (event === undefined) continue
    const key = `${(event.Package ?? event.ImportPath ?? '').replace(MODULE, '')} ${event.Test?.split('/')[0] ?? ''}`.trim()
    if (event.Output !== undefined) outputs.set(key, ((outputs.get(key) ?? '') + event.Output).slice(-20_000))
    if (!['pass', 'fail', 'skip'].includes(event.Action)) continue
    if (event.Test !== undefined && !event.Test.includes('/'))
      results.push({ name: key, action: event.Action, output: outputs.get(key) ?? '' })
    if (event.Test === undefined && event.Action === 'fail') failed_packages.push(`${key}: ${outputs.get(key) ?? ''}`)
  }
  const code = await ended
  if (code !== 0 && failed_packages.length === 0) failed_packages.push(`go test ended with ${code}`)
  return { results, failed_packages }
}

// What a compiler or a panic prints is not JSON.
function parse(line) {
  try {
    return JSON.parse(line)
  } catch {
    process.stderr.write(`${line}\n`)
    return undefined
  }
}
