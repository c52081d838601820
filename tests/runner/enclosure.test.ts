import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { INSIDE_VARIABLE } from '../../tools/enclosure/enclosure.mjs'
import { startTimeOf, until } from '../support/processes.ts'

const ENCLOSURE = path.resolve(import.meta.dirname, '../../tools/enclosure/enclosure.mjs')
const LIMIT_MS = 60_000
const folder = mkdtempSync(path.join(tmpdir(), 'berth-enclosures-'))
const started: ChildProcess[] = []
after(() => {
  for (const outside of started) outside.kill('SIGKILL') // only a failed test leaves such a process
  rmSync(folder, { recursive: true, force: true })
})

interface Enclosed {
  outside: ChildProcess
  mark: string
  group: string
  ended: Promise<unknown>
}

/** Leaves a process in its own session, a mount, a network namespace, a file, a control group, and an installation's folder. */
async function start(then: string): Promise<Enclosed> {
  const mark = `1${BigInt(`0x${randomBytes(6).toString('hex')}`)}`
  const group = `berth-x${randomBytes(4).toString('hex')}`
  const script = `
    setsid sleep ${mark} & mkdir /tmp/point && mount -t tmpfs none /tmp/point && touch /tmp/point/${mark} && ip netns add n${mark.slice(0, 8)}
    mkdir -p /tmp/berth-test-service/service-1/data && mkdir /tmp/bt-1 && touch /tmp/bt-1/cgroup-${group} && for each in ${groupsOf(group).join(' ')}; do mkdir -p $each/deeper; done
    touch "$BERTH_TEST_KEPT/${mark}"; ${then}`
  const source = `
    import { startEnclosed } from '${ENCLOSURE}'
    process.exitCode = await startEnclosed(['sh', '-c', ${JSON.stringify(script)}], { env: process.env }).ended`
  const { [INSIDE_VARIABLE]: _, npm_lifecycle_event: __, ...env } = process.env
  const outside = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    env: { ...env, TMPDIR: folder },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  started.push(outside)
  const ended = once(outside, 'exit')
  await until('the command has left things', LIMIT_MS, () => logs().some((each) => existsSync(path.join(each, mark))))
  return { outside, mark, group, ended }
}

/** Every computer has this hierarchy. */
function groupsOf(group: string): string[] {
  const below = existsSync('/sys/fs/cgroup/cgroup.controllers') ? '' : 'freezer'
  return [path.join('/sys/fs/cgroup', below, group)]
}

const logs = () => readdirSync(folder).filter((name) => name.startsWith('berth-test-logs-')).map((name) => path.join(folder, name)) // prettier-ignore
const enclosures = () => readdirSync(folder).filter((name) => name.startsWith('berth-run-'))

function processesOf(mark: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || startTimeOf(Number(pid)) === undefined) return false
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(`sleep\0${mark}`)
    } catch {
      return false // the process has ended
    }
  })
}

function assertNothingIsLeft({ mark, group }: Enclosed): void {
  assert.deepEqual(processesOf(mark), [])
  assert.deepEqual(enclosures(), [])
  assert.deepEqual(groupsOf(group).filter(existsSync), [])
  assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(folder))
  assert.ok(!existsSync(`/run/netns/n${mark.slice(0, 8)}`))
  for (const each of logs()) rmSync(each, { recursive: true })
}

test('nothing is left of a command that has ended', async () => {
  const enclosed = await start('sleep 0.2')
  await enclosed.ended
  assertNothingIsLeft(enclosed)
})

test('a signal to the waiting process ends the command, and nothing is left', async () => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const enclosed = await start('exec sleep 1000')
    assert.equal(processesOf(enclosed.mark).length, 1)
    enclosed.outside.kill(signal)
    await enclosed.ended
    assertNothingIsLeft(enclosed)
  }
})

test('a command that ignores signals ends at the second one', async () => {
  const enclosed = await start("trap '' TERM; while :; do sleep 0.1; done")
  enclosed.outside.kill('SIGTERM')
  await new Promise((resolve) => setTimeout(resolve, 2500)) // a second signal within two seconds counts as the same signal
  assert.equal(processesOf(enclosed.mark).length, 1)
  enclosed.outside.kill('SIGTERM')
  await enclosed.ended
  assertNothingIsLeft(enclosed)
})

test('a killed command ends with its processes, and the next one removes what it left, but nothing of a running one', async () => {
  const killed = await start('exec sleep 1000')
  const living = await start('exec sleep 1000')
  killed.outside.kill('SIGKILL')
  await killed.ended
  await until('its processes end', LIMIT_MS, () => processesOf(killed.mark).length === 0)
  assert.equal(enclosures().length, 2)
  const next = await start('true')
  await next.ended
  assert.equal(enclosures().length, 1)
  assert.deepEqual(groupsOf(killed.group).filter(existsSync), [])
  assert.deepEqual([processesOf(living.mark).length, groupsOf(living.group).every(existsSync)], [1, true])
  living.outside.kill('SIGTERM')
  await living.ended
  assertNothingIsLeft(living)
})
