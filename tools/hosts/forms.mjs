// Computers of `npm run test:hosts`: each is a stock Debian with its own kernel.

/** Packages that the README or the test steps require. */
const EVERYWHERE = [
  'btrfs-progs',
  'ca-certificates',
  'curl',
  'dbus',
  'iproute2',
  'iptables',
  'kmod',
  'nftables',
  'procps',
  'systemd-sysv',
  'udev',
]

/** Packages of the Dockerfile, because this computer builds the tested image. */
const CONTAINER = ['debian-archive-keyring', 'erofs-utils', 'mmdebstrap', 'passwd', 'tini', 'util-linux']

const RESTARTED = ['before-restart', 'restart', 'after-restart', 'doctor', 'reach']

/** `packages` are added to the standard system. `prepare` runs inside the root. `minutes` is enough for an emulated processor. */
export const FORMS = {
  plain: {
    about: 'Debian 13: systemd, cgroup v2, no firewall',
    suite: 'trixie',
    packages: ['linux-image-amd64', 'nodejs', ...EVERYWHERE],
    prepare: '',
    steps: ['install', 'doctor', 'tour', 'reach', ...RESTARTED, 'clean', 'go'],
    minutes: 90,
  },
  docker: {
    about: 'Debian 13 with Docker and ufw',
    suite: 'trixie',
    packages: ['linux-image-amd64', 'nodejs', 'docker.io', 'docker-cli', 'ufw', ...CONTAINER, ...EVERYWHERE],
    prepare: 'sed -i s/ENABLED=no/ENABLED=yes/ /etc/ufw/ufw.conf',
    steps: ['install', 'doctor', 'reach', 'docker-reloads', ...RESTARTED, 'docker-reloads', 'clean', 'container'],
    minutes: 90,
  },
  firewalld: {
    about: 'Debian 13 with AppArmor, systemd-resolved and firewalld',
    suite: 'trixie',
    packages: ['linux-image-amd64', 'nodejs', 'apparmor', 'systemd-resolved', 'firewalld', ...EVERYWHERE],
    prepare: '',
    steps: ['install', 'doctor', 'tour', 'reach', 'firewalld-reloads', ...RESTARTED, 'clean'],
    minutes: 90,
  },
  'old-kernel': {
    about: 'Debian 12, whose kernel has no simple quotas: refused with the way out',
    suite: 'bookworm',
    packages: ['linux-image-amd64', ...EVERYWHERE],
    prepare: '',
    steps: ['refused'],
    minutes: 30,
  },
}
