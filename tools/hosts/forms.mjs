// The computers that `npm run test:hosts` tests. Each is a stock Debian with its own kernel.

/** Packages of all forms beyond Debian's standard system: required by the README or used by the test steps. */
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

/** Packages that the Dockerfile installs: the tested image is built from this computer. */
const CONTAINER = ['debian-archive-keyring', 'erofs-utils', 'mmdebstrap', 'passwd', 'tini', 'util-linux']

/** Steps of tests/hosts/steps.ts that reboot the computer and check that Berth starts with it. */
const RESTARTED = ['before-restart', 'restart', 'after-restart', 'doctor', 'reach']

/**
 * Maps a name to its form. `suite` is the Debian release, `packages` extend the standard system, `prepare` is a shell script that
 * runs inside the root. `minutes` is the limit on an emulated processor.
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
