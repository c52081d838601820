// The computers on which `npm run test:hosts` tries Berth. Each is a stock Debian with its own kernel.

/** What every one of them has beside Debian's standard system: what the README asks for, and what the steps look with. */
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

/** What the Dockerfile installs: the image that is tried is made from this computer. */
const CONTAINER = ['debian-archive-keyring', 'erofs-utils', 'mmdebstrap', 'passwd', 'tini', 'util-linux']

/** Steps of tests/hosts/steps.ts: the computer starts again, and Berth with it. */
const RESTARTED = ['before-restart', 'restart', 'after-restart', 'doctor', 'reach']

/**
 * name → `suite`: the Debian release; `packages`: all that it has beside Debian's standard system; `prepare`: a shell script inside its root;
 * `steps`.
 * `minutes` is how long it may take where a processor is emulated.
 */
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
