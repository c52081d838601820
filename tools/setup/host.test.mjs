import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostProblems } from './host.mjs'

const V2 = '29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n'
const V1 = '30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n'
const FINE = {
  release: 'ID=debian\nVERSION_CODENAME=trixie\n',
  kernel: '6.12.41+deb13-amd64',
  file_systems: 'nodev\tproc\nnodev\toverlay\n\terofs\n\tbtrfs\n',
  has_simple_quotas: true,
  mounts: V2,
  controllersAt: () => 'cpuset cpu io memory hugetlb pids rdma misc\n',
  has_loop_devices: true,
}
const problems = (change) => hostProblems({ ...FINE, ...change })

test('a stock Debian 13 passes, and so does a computer with cgroup v1', () => {
  assert.deepEqual(problems({}), [])
  assert.deepEqual(problems({ mounts: V1, controllersAt: () => '' }), [])
  assert.deepEqual(problems({ kernel: '7.0.0' }), [])
})

test('a kernel without simple quotas is refused with the way to a newer one', () => {
  const [bookworm] = problems({ kernel: '6.1.0-37-amd64', release: 'ID=debian\nVERSION_CODENAME=bookworm\n', has_simple_quotas: false })
  assert.match(bookworm, /6\.1\.0-37-amd64.*Linux 6\.7.*bookworm-backports/)
  const [ubuntu] = problems({ kernel: '5.15.0-1', release: 'ID=ubuntu\nVERSION_CODENAME=jammy\n', has_simple_quotas: false })
  assert.match(ubuntu, /hwe/)
  assert.equal(problems({ kernel: '6.6.99' }).length, 1)
  assert.match(problems({ has_simple_quotas: false })[0], /no simple quotas/)
})

test('missing modules, loop devices and controllers are named, each with a remedy', () => {
  assert.match(
    problems({ file_systems: 'nodev\toverlay\n\tbtrfs\n', release: 'ID=ubuntu\n', kernel: '6.8.0-1' })[0],
    /no erofs.*linux-modules-extra-6\.8\.0-1/,
  )
  assert.match(problems({ has_loop_devices: false })[0], /modprobe loop/)
  assert.match(problems({ controllersAt: () => 'cpu pids' })[0], /lack cpuset, memory.*Delegate=yes/)
  assert.match(problems({ mounts: '' })[0], /no control groups/)
  const all = problems({ kernel: '6.1.0', file_systems: '', has_loop_devices: false, mounts: '' })
  assert.equal(all.length, 4, 'everything is told at once')
})
