import { existsSync, readFileSync } from 'node:fs'
import { run } from './cached-build.mjs'

/** The first kernel whose btrfs has simple quotas. Without them the limit of a disk with a snapshot is not enforced. */
const KERNEL_MIN = [6, 7]
const FILE_SYSTEMS = ['btrfs', 'erofs', 'overlay']
const CONTROLLERS = ['cpu', 'cpuset', 'memory', 'pids']
const SIMPLE_QUOTA = '/sys/fs/btrfs/features/simple_quota'

export async function checkHost() {
  if (process.platform !== 'linux') throw new Error('Berth runs on Linux.')
  if (process.getuid() !== 0) throw new Error('Berth needs root, to make disks, networks and machines: run it with sudo.')
  const read = (path) => (existsSync(path) ? readFileSync(path, 'utf8') : '')
  const release = read('/etc/os-release')
  if (!/^ID(_LIKE)?=.*\b(debian|ubuntu)\b/m.test(release)) throw new Error("Berth's set-up knows Debian and Ubuntu only.")
  for (const name of FILE_SYSTEMS) await load(name, read('/proc/filesystems'))
  const problems = hostProblems({
    release,
    kernel: read('/proc/sys/kernel/osrelease').trim(),
    file_systems: read('/proc/filesystems'),
    has_simple_quotas: existsSync(SIMPLE_QUOTA),
    mounts: read('/proc/self/mountinfo'),
    controllersAt: (mount) => read(`${mount}/cgroup.controllers`),
    has_loop_devices: existsSync('/dev/loop-control'),
  })
  if (problems.length > 0) throw new Error(`Berth cannot run on this computer:\n${problems.map((each) => `- ${each}`).join('\n')}`)
}

export function hostProblems({ release, kernel, file_systems, has_simple_quotas, mounts, controllersAt, has_loop_devices }) {
  const problems = []
  const old = isOlder(kernel)
  if (old)
    problems.push(
      `its kernel is ${kernel}, and disks need the simple quotas of Linux ${KERNEL_MIN.join('.')} or newer. ${newerKernel(release)}`,
    )
  const missing = FILE_SYSTEMS.filter((name) => !new RegExp(`\\b${name}$`, 'm').test(file_systems))
  if (missing.length > 0) {
    const extra = /^ID=ubuntu/m.test(release)
      ? `Install linux-modules-extra-${kernel}, where they are.`
      : 'Load their modules, or start a kernel that has them; in a container, load them on its host.'
    problems.push(`its kernel has no ${missing.join(', no ')}. ${extra}`)
  } else if (!old && !has_simple_quotas) {
    problems.push('the btrfs of its kernel has no simple quotas. Start a kernel of your distribution.')
  }
  if (!has_loop_devices)
    problems.push('it has no loop devices (/dev/loop-control). Run: modprobe loop. In a container: docker run --privileged.')
  return [...problems, ...controllerProblems(mounts, controllersAt)]
}

/** @param kernel as `uname -r` prints it. */
function isOlder(kernel) {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(kernel) ?? []
  return Number(major) < KERNEL_MIN[0] || (Number(major) === KERNEL_MIN[0] && Number(minor) < KERNEL_MIN[1])
}

function newerKernel(release) {
  const codename = /^VERSION_CODENAME=(\w+)/m.exec(release)?.[1]
  if (codename === 'bookworm') {
    return 'Debian 12 has one in bookworm-backports: add that suite to the sources of apt, then apt-get update, apt-get install --target-release bookworm-backports linux-image-amd64 (or -arm64), and restart.'
  }
  if (/^ID=ubuntu/m.test(release)) return 'Ubuntu 22.04 has one as linux-generic-hwe-22.04, 24.04 comes with one. Install it and restart.'
  return 'Upgrade to a release that has one, Debian 13 for instance.'
}

function controllerProblems(mounts, controllersAt) {
  const lines = mounts.split('\n').map((line) => line.split(' - ').map((half) => half.split(' ')))
  const of = (type) => lines.filter(([, after]) => after?.[0] === type)
  const v1 = of('cgroup').flatMap(([, after]) => after[2].split(','))
  if (v1.includes('memory')) return []
  const [unified] = of('cgroup2')
  if (unified === undefined) return ['it has no control groups: neither cgroup v2 nor the memory controller of v1 is mounted.']
  const have = controllersAt(unified[0][4]).trim().split(/\s+/)
  const missing = CONTROLLERS.filter((name) => !have.includes(name))
  if (missing.length === 0) return []
  return [
    `its control groups at ${unified[0][4]} lack ${missing.join(', ')}. In a container they must be delegated to it: docker run --privileged, or Delegate=yes for a unit of systemd. On a host, the kernel's command line turned them off (cgroup_disable, or cgroup_enable=memory on a Raspberry Pi).`,
  ]
}

async function load(name, file_systems) {
  if (file_systems.includes(name)) return
  await run('modprobe', [name]).catch(() => undefined) // a later check reports a missing module, with the remedy
}
