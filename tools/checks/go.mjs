import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { patience } from '../../tests/support/patience.ts'
import { GO_FLAGS, goEnvironment } from '../setup/binaries.mjs'
import { CLONE } from '../setup/packages.mjs'

export const MACHINE = join(CLONE, 'machine')
const MODULE = 'github.com/berth-dev/berth/machine/'
const OUTPUT_CHARACTERS_MAX = 20_000
const RACE_FACTOR = 5
/** A lane of its own, because it takes longer than all other packages with machines together. */
const HOSTD = 'internal/hostd'
const ENDS = ['pass', 'fail', 'skip']

/** Tests that need the computer for themselves: one a line, with the reason. */
const ALONE = join(MACHINE, 'internal', 'testns', 'alone.txt')

export function goPackages() {
  const { status, stdout, stderr } = spawnSync('go', ['list', './...'], { cwd: MACHINE, encoding: 'utf8' })
  if (status !== 0) throw new Error(`go list failed:\n${stderr}`)
  const all = lines(stdout).map((name) => name.replace(MODULE, ''))
  const machines = lines(readFileSync(ALONE, 'utf8'))
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.split(/\s+/)[0])
  const gone = [...machines, HOSTD].filter((name) => !all.includes(name))
  assert.deepEqual(gone, [], `these packages are named in ${ALONE} and are not there`)
  const isHostd = (name) => name === HOSTD
  return {
    plain: all.filter((name) => !machines.includes(name)),
    hostd: machines.filter(isHostd),
    machines: machines.filter((name) => !isHostd(name)),
  }
}

function lines(text) {
  return text.split('\n').filter((line) => line !== '')
}

/** Fails if a package has tests but runs none. `at_once` limits concurrent packages, `parallel` the concurrent tests of each. */
export async function goTest(t, packages, { at_once, parallel, minutes }) {
  const { results, wrong } = await ran(packages, ['-p', String(at_once), '-parallel', String(parallel), ...flagsOf(minutes)])
  for (const { name, action, output } of results) {
    await t.test(name, (each) => {
      if (action === 'skip') each.skip(reasonIn(output))
      assert.notEqual(action, 'fail', output)
    })
  }
  assert.deepEqual(wrong, [])
}

const looks_for_races = process.env.BERTH_TEST_RACE === '1'

function flagsOf(minutes) {
  const seconds = patience(minutes * 60)
  return looks_for_races ? ['-race', '-timeout', `${seconds * RACE_FACTOR}s`] : ['-timeout', `${seconds}s`]
}

/** Go's race detector needs cgo, which is otherwise turned off. */
function environment() {
  return looks_for_races ? { ...goEnvironment(), CGO_ENABLED: '1' } : goEnvironment()
}

/** Go prints ` some_test.go:12: reason` in the line above SKIP. */
function reasonIn(output) {
  const [, reason = output.trim()] = /_test\.go:\d+: (.*)/.exec(output) ?? []
  return reason
}

async function ran(packages, flags) {
  const command = ['test', '-json', '-count', '1', '-vet', 'off', ...GO_FLAGS, ...flags]
  const options = { cwd: MACHINE, env: environment(), stdio: ['ignore', 'pipe', 'inherit'] }
  const child = spawn('go', [...command, ...packages.map((name) => `./${name}`)], options)
  const ended = new Promise((resolve, reject) => child.once('error', reject).once('close', resolve))
  const outputs = new Map()
  const [results, wrong] = [[], []]
  const with_tests = new Set()
  for await (const line of createInterface({ input: child.stdout })) {
    const event = parse(line)
    if (event === undefined) continue
    const of = (event.Package ?? event.ImportPath ?? '').replace(MODULE, '')
    const [first, ...deeper] = event.Test?.split('/') ?? []
    const name = [of, event.Test].join(' ').trim()
    // Output of a subtest is also added to its top-level test.
    for (const each of new Set([name, [of, first].join(' ').trim()])) keep(outputs, each, event.Output)
    if (first !== undefined) with_tests.add(of)
    const ended_as = { name, action: event.Action, output: outputs.get(name) ?? '' }
    if (first !== undefined && ENDS.includes(event.Action) && (deeper.length === 0 || event.Action === 'skip')) results.push(ended_as)
    if (first === undefined && event.Action === 'fail') wrong.push(`${name}: ${ended_as.output}`)
    // Go skips a package without test files, and passes one whose TestMain exits early.
    if (first === undefined && event.Action === 'pass' && !with_tests.has(of)) wrong.push(`${name} ran no test: ${ended_as.output}`)
  }
  const code = await ended
  if (code !== 0 && wrong.length === 0) wrong.push(`go test ended with ${code}`)
  return { results, wrong }
}

function keep(outputs, name, text = '') {
  outputs.set(name, ((outputs.get(name) ?? '') + text).slice(-OUTPUT_CHARACTERS_MAX))
}

function parse(line) {
  try {
    return JSON.parse(line)
  } catch {
    process.stderr.write(`${line}\n`)
    return undefined
  }
}
