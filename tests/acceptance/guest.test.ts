import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

// What programs expect of a computer, and only a real machine can have.
let service: SharedService
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('guest', { caps: { memory_mib: 512, disk_gib: 3 } })
})
after(async () => {
  await service.stop()
})

async function sh(of: OpenedWorkspace, script: string): Promise<string> {
  const { stdout, stderr, exit } = await client.run(of, ['bash', '-c', script])
  assert.equal(exit.exit_code, 0, `${script}: ${stdout}${stderr}`)
  return stdout.trim()
}
const again = async (of: OpenedWorkspace): Promise<OpenedWorkspace> => ({ ...of, token: await client.token(of.id) })
async function operated(of: OpenedWorkspace, verb: string, json: object = {}): Promise<Record<string, unknown>> {
  const { state, error, result } = await client.operate(`/v1/workspaces/${of.id}/${verb}`, { json })
  assert.deepEqual([state, error], ['succeeded', null], verb)
  return result ?? {}
}
const BOOT_ID = 'cat /proc/sys/kernel/random/boot_id'

test('/tmp has the room of the disk, stays over a suspend, goes along into a fork, and is empty after a start without memory', async () => {
  const source = await client.open('tmp', { caps: { memory_mib: 512, disk_gib: 2 } })
  assert.equal(await sh(source, 'stat -c "%a %U" /tmp; ls -A /tmp'), '1777 root')
  const big = 'head -c 1G /dev/zero > /tmp/big && printf "#!/bin/sh\\necho runs" > /tmp/run && chmod +x /tmp/run && mkfifo /tmp/pipe'
  assert.equal(
    await sh(source, `${big}; stat -c %s /tmp/big; /tmp/run; df --output=size -m /tmp | tail -1 | tr -d " "`),
    '1073741824\nruns\n2048',
  )
  const full = await client.run(source, ['sh', '-c', 'head -c 2G /dev/zero > /tmp/more'])
  assert.deepEqual([full.exit.exit_code, /quota|space/i.test(full.stderr)], [1, true])
  await sh(source, 'rm /tmp/more; sync')
  const boot = await sh(source, BOOT_ID)
  assert.match(boot, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)

  const { checkpoint_id } = await operated(source, 'suspend')
  await operated(source, 'resume')
  const resumed = await again(source)
  assert.equal(await sh(resumed, `ls /tmp; stat -c %s /tmp/big; ${BOOT_ID}`), `big\npipe\nrun\n1073741824\n${boot}`)

  await operated(source, 'fork', { key: 'tmp-fork' })
  const fork = await client.open('tmp-fork')
  assert.equal(await sh(fork, 'ls /tmp'), 'big\npipe\nrun')
  const own = await sh(fork, `${BOOT_ID}; sysctl -n kernel.random.boot_id`)
  assert.notEqual(own.split('\n')[0], boot)
  assert.equal(own.split('\n')[0], own.split('\n')[1])
  assert.equal(await sh(resumed, BOOT_ID), boot)

  await operated(resumed, 'restore', { checkpoint_id, memory: false })
  const cold = await client.open('tmp')
  assert.equal(await sh(cold, 'stat -c "%a %U" /tmp; ls -A /tmp'), '1777 root')
  assert.notEqual(await sh(cold, BOOT_ID), boot)
})

test('what a background process writes after the exit of its command is read behind it, and the exit waits for none of it', async () => {
  const script = '(until [ -e /tmp/go ]; do sleep 0.1; done; echo late; echo done > /tmp/said) & echo hi'
  const { session_id, stdout, exit } = await client.run(workspace, ['bash', '-c', script])
  assert.deepEqual([stdout, exit.exit_code], ['hi\n', 0])
  await sh(workspace, 'touch /tmp/go; until [ -s /tmp/said ]; do sleep 0.1; done')
  const { bytes } = await client.tool(workspace, `/exec/${session_id}/output?stdout_offset=3`)
  const events = bytes.toString().trim().split('\n').map((line) => JSON.parse(line) as { type: string; offset?: number; data?: string }) // prettier-ignore
  assert.deepEqual(
    events.map(({ type, offset, data }) => [type, offset, data && Buffer.from(data, 'base64').toString()]),
    [
      ['output', 3, 'late\n'],
      ['exit', undefined, undefined],
    ],
  )
})
