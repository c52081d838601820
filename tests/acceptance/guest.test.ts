import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { attach, printed } from '../support/attached.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

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

test('/tmp has the size of the disk, survives a suspend, is copied to a fork, and is empty after a start without memory', async () => {
  const source = await client.open('tmp', { caps: { memory_mib: 512, disk_gib: 2 } })
  assert.equal(await sh(source, 'stat -c "%a %U" /tmp; ls -A /tmp'), '1777 root')
  const big =
    'dd if=/dev/zero of=/tmp/big bs=1M count=1024 status=none && printf "#!/bin/sh\\necho runs" > /tmp/run && chmod +x /tmp/run && mkfifo /tmp/pipe'
  assert.equal(
    await sh(source, `${big}; stat -c %s /tmp/big; /tmp/run; df --output=size -m /tmp | tail -1 | tr -d " "`),
    '1073741824\nruns\n2048',
  )
  const full = await client.run(source, ['sh', '-c', 'dd if=/dev/zero of=/tmp/more bs=1M count=2048 status=none'])
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

test('the exit of a command does not wait for background processes, whose later output can still be read', async () => {
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

test('Ctrl-D ends the input of a reader, also with more input in the same write, and wakes a program that polls', async () => {
  const polls = 'import os, select; select.select([0], [], []); print(os.read(0, 9))'
  const script = `stty -echo; echo begun; cat; echo first; cat; echo second; cat; echo third; python3 -c '${polls}'`
  const started = await client.tool(workspace, '/pty', { json: { session_id: 'ctrl-d', argv: ['sh', '-c', script] } })
  assert.equal(started.status, 201)
  const url = `${workspace.endpoint}/v1/workspaces/${workspace.id}/pty/ctrl-d/attach?offset=0`
  const terminal = await attach(url, { token: workspace.token })
  await terminal.until(/begun\r\n/)
  terminal.say({ type: 'input', data: Buffer.from('a\n\x04b\n\x04c\x04\x04\x04').toString('base64') })
  const events = await terminal.rest()
  assert.equal(events.map(printed).join(''), "a\r\nfirst\r\nb\r\nsecond\r\ncthird\r\nb''\r\n")
  assert.equal(events.at(-1)?.['exit_code'], 0)
})

test('Ctrl-C interrupts a program that reads nothing, and discards input typed before it', async () => {
  const script = 'stty -echo; echo begun; trap "echo interrupted" INT; sleep 1000; read line; echo "read $line"'
  const started = await client.tool(workspace, '/pty', { json: { session_id: 'ctrl-c', argv: ['bash', '-c', script] } })
  assert.equal(started.status, 201)
  const url = `${workspace.endpoint}/v1/workspaces/${workspace.id}/pty/ctrl-c/attach?offset=0`
  const terminal = await attach(url, { token: workspace.token })
  const type = (text: string) => terminal.say({ type: 'input', data: Buffer.from(text).toString('base64') })
  await terminal.until(/begun\r\n/)
  await sh(workspace, 'until pgrep -fx "sleep 1000"; do :; done')
  type('ahead\n')
  type('further\n\x03')
  await terminal.until(/interrupted\r\n/)
  type('behind\n')
  assert.match((await terminal.rest()).map(printed).join(''), /^read behind\r\n$/)
})

test('a hole takes no space, is found by seek, is copied as a hole, and can be punched', async () => {
  const made =
    'cd ~ && truncate -s 10G sparse && stat -c "%s %b" sparse && cp sparse copy && stat -c "%s %b" copy && tar -cSf tar sparse && stat -c %s tar'
  const [sparse, copy, tar] = (await sh(workspace, made)).split('\n')
  assert.deepEqual([sparse, copy], ['10737418240 0', '10737418240 0'])
  assert.ok(Number(tar) < 100_000, tar)
  const punched = `head -c 8M /dev/urandom > data && sync data && before=$(stat -c %b data) && fallocate -p -o 1M -l 4M data && sync data
python3 - <<'END'
import os
f = os.open('data', os.O_RDONLY)
print(os.lseek(f, 0, os.SEEK_HOLE), os.lseek(f, 1 << 20, os.SEEK_DATA), os.fstat(f).st_size, os.pread(f, 4, 2 << 20))
END
echo $(((before - $(stat -c %b data)) / 2048))`
  assert.equal(await sh(workspace, punched), "1048576 5242880 8388608 b'\\x00\\x00\\x00\\x00'\n4")
  await operated(workspace, 'suspend')
  await operated(workspace, 'resume')
  workspace = await again(workspace)
  assert.equal(await sh(workspace, 'cd ~; stat -c %b sparse copy; rm sparse copy tar data'), '0\n0')
})

test('monitoring tools find the kernel files that they read', async () => {
  for (const tool of ['vmstat', 'vmstat -s', 'free', 'top -bn1', 'ps aux', 'uptime', 'ss -tlnp', 'swapon --show', 'pgrep init'])
    await sh(workspace, `${tool} > /dev/null`)
  assert.equal(await sh(workspace, 'cat /proc/diskstats /proc/sys/vm/swappiness; wc -l < /proc/swaps'), '0\n1')
  const [running, tasks] = (await sh(workspace, "cut -d' ' -f4 /proc/loadavg")).split('/').map(Number)
  assert.ok(running !== undefined && tasks !== undefined && running >= 1 && tasks > running, `${running}/${tasks}`)
  assert.ok(Number(await sh(workspace, 'cat /proc/sys/fs/inotify/max_user_watches')) > 500_000)
})

test('the base template has the tools that agents call', async () => {
  const tools =
    'bc bzip2 curl file git gpg jq less lsof make nano nc node npm patch ping python python3 pip rg rsync scp sqlite3 ssh strace sudo tar tmux tree unzip vi wget xxd xz zip zstd'
  assert.equal(await sh(workspace, `for each in ${tools}; do command -v $each > /dev/null || echo $each; done`), '')
  assert.match(await sh(workspace, 'ping -c 1 127.0.0.1; lsof -p $$ > /dev/null'), /1 received/)
  assert.equal(
    await sh(workspace, 'echo "select 6 * 7" | sqlite3; strace -c true 2>&1 | grep -c execve; echo "{\\"a\\":1}" | jq .a'),
    '42\n1\n1',
  )
})
