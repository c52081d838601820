import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('proc')
})
after(() => service.stop())

async function sh(script: string): Promise<string> {
  const { exit, stdout, stderr } = await client.run(workspace, ['bash', '-c', script])
  assert.equal(exit.exit_code, 0, stderr)
  return stdout.trim()
}

/**
 * Files in /proc that installable programs read; `self` is a process. Omitted are files that the engine lacks and the programs do without:
 * /proc/tty/drivers (htop), /proc/sys/kernel/core_pattern and /sys/kernel/mm/transparent_hugepage (java, go). guest.test.ts runs the base
 * template's tools.
 */
const READ: Record<string, string[]> = {
  htop: [
    ...['/proc/stat', '/proc/meminfo', '/proc/loadavg', '/proc/uptime', '/proc/cpuinfo', '/proc/self/stat', '/proc/self/status'],
    ...['/proc/self/statm', '/proc/self/cmdline', '/proc/self/comm', '/proc/self/cgroup', '/proc/self/io', '/proc/self/oom_score'],
    ...['/proc/self/environ', '/proc/self/maps', '/proc/self/task/self/stat', '/proc/diskstats', '/proc/net/dev', '/proc/swaps'],
  ],
  java: [
    ...[
      '/proc/self/cgroup',
      '/proc/self/mountinfo',
      '/proc/cgroups',
      '/proc/self/stat',
      '/proc/self/maps',
      '/proc/meminfo',
      '/proc/cpuinfo',
    ],
    ...['/proc/sys/kernel/threads-max', '/proc/sys/kernel/pid_max', '/proc/sys/vm/max_map_count', '/proc/sys/vm/overcommit_memory'],
    ...['/proc/version', '/sys/devices/system/cpu/online', '/proc/self/coredump_filter', '/proc/self/oom_score_adj'],
  ],
  node: [
    ...['/proc/meminfo', '/proc/self/cgroup', '/proc/stat', '/proc/cpuinfo', '/proc/uptime', '/proc/self/stat', '/proc/self/maps'],
    ...['/sys/devices/system/cpu/online', '/proc/self/limits'],
  ],
  go: [
    ...['/proc/self/cgroup', '/proc/self/mountinfo', '/proc/self/auxv', '/proc/self/maps', '/proc/sys/net/core/somaxconn'],
    ...['/proc/sys/kernel/hostname', '/proc/sys/kernel/random/boot_id'],
  ],
}

for (const [program, files] of Object.entries(READ))
  test(`what ${program} reads of /proc and /sys is there`, async () => {
    const unread = await sh(`for each in ${files.join(' ')}; do
  head -c 65536 $(echo $each | sed "s/self/$$/g") > /dev/null 2> /dev/null || echo $each; done`)
    assert.equal(unread, '')
  })

test('Node reports the same machine as the kernel', async () => {
  const told = await sh(`node -p 'const os = require("node:os"); JSON.stringify([os.cpus().length, os.totalmem(), os.uptime() > 0,
    os.freemem() > 0, os.loadavg().length, Object.keys(os.networkInterfaces()), process.memoryUsage().rss > 0])'`)
  const kernel = await sh("echo $(nproc) $(awk '/MemTotal/ { print $2 * 1024 }' /proc/meminfo)")
  assert.deepEqual(JSON.parse(told), [...kernel.split(' ').map(Number), true, true, 3, ['lo', 'eth0'], true])
})
