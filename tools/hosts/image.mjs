import { createHash } from 'node:crypto'
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cachedBuild, run as runOnce, timed } from '../setup/cached-build.mjs'
import { installDebian, rootFlags } from '../setup/debian-root.mjs'

const DISK_GIB = 48 // a sparse file
/** These units need the internet, which this computer does not have. */
const MASKED = ['apt-daily.timer', 'apt-daily-upgrade.timer', 'dpkg-db-backup.timer', 'systemd-networkd-wait-online.service']

/** Mounts folders of the testing computer. Overlays keep all changes in the guest. */
const FSTAB = `clone /mnt/clone 9p trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 0 0
go /usr/local/go 9p trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 0 0
cache /mnt/cache 9p trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 0 0
overlay /srv/berth overlay lowerdir=/mnt/clone,upperdir=/var/overlay/clone/upper,workdir=/var/overlay/clone/work,x-systemd.requires-mounts-for=/mnt/clone 0 0
overlay /var/cache/berth overlay lowerdir=/mnt/cache,upperdir=/var/overlay/cache/upper,workdir=/var/overlay/cache/work,x-systemd.requires-mounts-for=/mnt/cache 0 0
`
const FOLDERS = ['/mnt/clone', '/mnt/cache', '/usr/local/go', '/srv/berth', '/var/cache/berth', '/var/overlay/clone/upper', '/var/overlay/clone/work', '/var/overlay/cache/upper', '/var/overlay/cache/work'] // prettier-ignore

const UNIT = `[Unit]
Description=What npm run test:hosts does on this computer
After=multi-user.target systemd-user-sessions.service
[Service]
Type=simple
Environment=HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin
WorkingDirectory=/srv/berth
ExecStart=/bin/sh -c 'exec /srv/berth/node_modules/node-linux-*/bin/node --disable-warning=ExperimentalWarning /srv/berth/tests/hosts/main.ts'
[Install]
WantedBy=default.target
`

/** The first call takes about two minutes. */
export async function hostImage(name, { suite, packages, prepare }, { cache_dir, log }) {
  const parts = [suite, packages, prepare, FSTAB, FOLDERS, UNIT, MASKED, DISK_GIB]
  const key = `${name}-${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)}`
  const folder = await cachedBuild({
    parent: join(cache_dir, 'hosts'),
    key,
    build: (place) => timed(log, `the computer ${name} is installed`, () => build({ ...place, suite, packages, prepare })),
  })
  return { disk: join(folder, 'disk.img'), kernel: join(folder, 'vmlinuz'), initrd: join(folder, 'initrd.img') }
}

async function build({ work, output, run, suite, packages, prepare }) {
  const root = join(work, 'root')
  await installDebian({ run, suite, root, packages, flags: rootFlags('standard'), timeout_seconds: 1800 })
  for (const path of FOLDERS) await mkdir(join(root, path), { recursive: true })
  await writeFile(join(root, 'etc/fstab'), FSTAB)
  await writeFile(join(root, 'etc/hostname'), 'berth-host\n')
  await writeFile(join(root, 'etc/hosts'), '127.0.0.1 localhost\n127.0.1.1 berth-host\n')
  await writeFile(join(root, 'etc/systemd/system/berth-hosts-test.service'), UNIT)
  const script = ['set -e', 'systemctl enable berth-hosts-test.service', `systemctl mask ${MASKED.join(' ')}`, 'passwd -d root', prepare]
  await run('chroot', [root, '/bin/sh', '-c', script.join('\n')])
  for (const name of await readdir(join(root, 'boot'))) {
    for (const part of ['vmlinuz', 'initrd.img'])
      if (name.startsWith(`${part}-`)) await copyFile(join(root, 'boot', name), join(output, part))
  }
  await run('truncate', ['--size', `${DISK_GIB}G`, join(output, 'disk.img')])
  await run('mkfs.ext4', ['-q', '-d', root, join(output, 'disk.img')], { timeout_seconds: 600 })
}

export const HOSTS_DEBIAN_PACKAGES = ['debian-archive-keyring', 'mmdebstrap', 'qemu-system-x86', 'e2fsprogs']

export async function copyDisk(from, to) {
  await runOnce('cp', ['--sparse=always', '--reflink=auto', from, to], { timeout_seconds: 600 })
}
