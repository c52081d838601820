/**
 * What no version of a template takes over from a workspace: docs/guides/templates.md says it. A path that ends with `/` is all that is in
 * that directory, `*` any name.
 */
export const SCRUBBED = [
  // What is of the moment.
  '/proc/',
  '/sys/',
  '/dev/',
  '/run/',
  '/tmp/',
  '/var/tmp/',
  '/var/run/',
  // What a machine is, and not what is on it: each gets its own.
  '/etc/hostname',
  '/etc/hosts',
  '/etc/resolv.conf',
  '/etc/machine-id',
  '/var/lib/dbus/machine-id',
  '/var/lib/systemd/random-seed',
  '/etc/ssh/ssh_host_*',
  // What people and programs did.
  '/var/log/',
  '/root/.bash_history',
  '/root/.zsh_history',
  '/root/.sh_history',
  '/root/.python_history',
  '/root/.node_repl_history',
  '/root/.lesshst',
  '/root/.viminfo',
  '/root/.wget-hsts',
  '/home/*/.bash_history',
  '/home/*/.zsh_history',
  '/home/*/.sh_history',
  '/home/*/.python_history',
  '/home/*/.node_repl_history',
  '/home/*/.lesshst',
  '/home/*/.viminfo',
  '/home/*/.wget-hsts',
  // What is made anew where it is needed.
  '/root/.cache/',
  '/home/*/.cache/',
  '/var/cache/apt/archives/*.deb',
  '/var/lib/apt/lists/*_*',
] as const
