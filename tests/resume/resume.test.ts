// Needs its own installation, whose machines are hibernated after seconds.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { type Machines, machinesOf } from '../support/machines.ts'
import { patience } from '../support/patience.ts'
import { startService, type Service } from '../support/service.ts'
import { CASES, PROGRAM } from './cases.ts'

const NAMES = CASES.map(({ name }) => name)
const HOME = '/home/user/resume'
/** Longer than any tolerance for clocks that the cases have. */
const ASLEEP_MS = 8000
const PARK_MS = 120_000
const caps = { caps: { memory_mib: 768 } }

let service: Service
let client: Client
let machines: Machines

before(async () => {
  const settings = { slots: 1, memory_overcommit: 8, disk_overcommit: 200, freeze_after_seconds: 1, hibernate_after_seconds: 3 }
  service = await startService({ settings })
  client = createClient(service.base_url, service.api_key)
  machines = machinesOf(service)
})
after(() => service.stop())

/** Takes a workspace through a step. @returns the workspace in which its processes continue */
type Step = (workspace: OpenedWorkspace) => Promise<OpenedWorkspace>

const operate = async (at: string, json: object = {}) => {
  const { state, error, ...operation } = await client.operate(at, { json })
  assert.deepEqual([state, error], ['succeeded', null], at)
  return operation
}
const again = async (workspace: OpenedWorkspace): Promise<OpenedWorkspace> => ({ ...workspace, token: await client.token(workspace.id) })

const STEPS: Record<string, Step> = {
  async suspend(workspace) {
    await operate(`/v1/workspaces/${workspace.id}/suspend`)
    await setTimeout(ASLEEP_MS)
    await operate(`/v1/workspaces/${workspace.id}/resume`)
    return again(workspace)
  },
  async hibernation(workspace) {
    await machines.until('it is hibernated', PARK_MS, (all) => !all.some(({ subject }) => subject.id === workspace.id))
    await setTimeout(ASLEEP_MS)
    return workspace
  },
  async fork(workspace) {
    await operate(`/v1/workspaces/${workspace.id}/fork`, { key: 'resume-forked' })
    return client.open('resume-forked')
  },
  async 'snapshot and restore'(workspace) {
    const { result } = await operate(`/v1/workspaces/${workspace.id}/snapshot`)
    await setTimeout(ASLEEP_MS)
    await operate(`/v1/workspaces/${workspace.id}/restore`, { checkpoint_id: result?.['checkpoint_id'] })
    return again(workspace)
  },
}

for (const [name, step] of Object.entries(STEPS)) {
  describe(name, () => {
    let results: Record<string, string>

    before(async () => {
      const workspace = await client.open(`resume-${name.replaceAll(' ', '-')}`, caps)
      await client.tool(workspace, '/keepalive', { json: { seconds: 600 } })
      const run = async (where: OpenedWorkspace, script: string) => (await client.run(where, ['bash', '-c', script])).stdout.trim()
      await run(workspace, `mkdir -p ${HOME}; cat > ${HOME}/cases.py <<'END OF CASES'\n${PROGRAM}\nEND OF CASES\n`)
      const started = NAMES.map((each) => `setsid nohup python3 ${HOME}/cases.py ${each} > ${HOME}/${each}.log 2>&1 < /dev/null &`)
      await run(workspace, `cd ${HOME}; ${started.join('\n')}`)
      const ready = `for i in $(seq ${patience(300)}); do [ $(ls ${HOME}/*.ready | wc -l) = ${NAMES.length} ] && break; sleep .1; done; ls ${HOME}/*.ready | wc -l`
      assert.equal(await run(workspace, ready), String(NAMES.length))
      await client.tool(workspace, '/keepalive', { json: { seconds: 0 } })
      const began = performance.now()
      const resumed = await step(workspace)
      const slept = Math.min(ASLEEP_MS, performance.now() - began) / 1000
      const goes = NAMES.map((each) => `echo ${name === 'fork' ? 0 : slept} > ${HOME}/${each}.go`).join('; ')
      const told = `for i in $(seq ${patience(300)}); do [ $(ls ${HOME}/*.result | wc -l) = ${NAMES.length} ] && break; sleep .1; done`
      const lines = await run(resumed, `${goes}; ${told}; cd ${HOME}; grep -H '' *.result || true; ls *.result`)
      results = Object.fromEntries(NAMES.map((each) => [each, resultOf(each, lines)]))
    })

    for (const each of NAMES) test(`${each} survives`, () => assert.equal(results[each], ''))
  })
}

test('a save that a removed file prevents names the file, and the guest runs on', async () => {
  const workspace = await client.open('resume-obstacle', caps)
  const lines = ['import os, time', 'f = os.open("big", os.O_RDWR | os.O_CREAT)', 'for n in range(80): os.write(f, os.urandom(1 << 20))']
  const program = [...lines, 'os.unlink("big"); open("ready", "w").close(); time.sleep(9999)'].join('\n')
  const run = async (script: string) => (await client.run(workspace, ['bash', '-c', script])).stdout.trim()
  await run(
    `echo '${program}' > hold.py; setsid nohup python3 hold.py > log 2>&1 < /dev/null & for i in $(seq 200); do [ -e ready ] && break; sleep .1; done`,
  )
  const { state, error } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.deepEqual(
    [state, error?.code, error?.details],
    ['failed', 'checkpoint_failed', { reason: 'checkpoint_failed', obstacle: '/home/user/big' }],
  )
  assert.equal((error as { retryable?: boolean } | null)?.retryable, false)
  assert.equal(await run('pgrep -fc hold.py'), '1')
})

function resultOf(name: string, lines: string): string {
  const file = `${name}.result`
  if (!lines.split('\n').includes(file)) return 'no result'
  return lines
    .split('\n')
    .filter((line) => line.startsWith(`${file}:`))
    .map((line) => line.slice(file.length + 1))
    .join('\n')
}
