/**
 * Never copied from a workspace into a template version (docs/guides/templates.md). A trailing `/` means everything in that directory, `*`
 * any name.
 */
export const EXCLUDED_FROM_TEMPLATES = [
  // Runtime state.
  '/proc/',
  '/sys/',
  '/dev/',
  '/run/',
  '/tmp/',
  '/var/tmp/',
  '/var/run/',
  // Identity of a machine, which must differ for each.
  '/etc/hostname',
  '/etc/hosts',
  '/etc/resolv.conf',
  '/etc/machine-id',
  '/var/lib/dbus/machine-id',
  '/var/lib/systemd/random-seed',
  '/etc/ssh/ssh_host_*',
  // Traces of people and programs.
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
  // Caches, rebuilt on demand.
  '/root/.cache/',
  '/home/*/.cache/',
  '/var/cache/apt/archives/*.deb',
  '/var/lib/apt/lists/*_*',
] as const
