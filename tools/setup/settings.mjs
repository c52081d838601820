// Flags have precedence over the environment, the file and the default. An unknown name is an error in each source.
import {
  address,
  addresses,
  databaseUrl,
  engines,
  failpoints,
  mailbox,
  network,
  number,
  oneOf,
  origins,
  path,
  pathOrNothing,
  portsUrl,
  prefixes,
  registration,
  slug,
  smtpUrl,
  stripeKey,
  stripeWebhookSecret,
  url,
  urlOrNothing,
  wholeNumber,
} from './setting-values.mjs'

/** `parse` accepts a text or a JSON value of the file. `fallback` may be a function of earlier settings and of facts about the host. */
export const SETTINGS = {
  data_dir: { parse: path, fallback: '/var/lib/berth', about: 'everything that must outlive the service' },
  run_dir: {
    parse: path,
    fallback: (settings) => `/run/berth/${settings.instance}`,
    about: 'sockets, mounts and other things of this run',
  },
  cache_dir: { parse: path, fallback: '/var/cache/berth', about: 'what set-up builds; may be deleted at any time' },
  database_url: {
    parse: databaseUrl,
    fallback: '',
    secret: true,
    also: 'DATABASE_URL',
    about: 'a PostgreSQL 15+ of your own; empty: the embedded one',
  },
  api_database_url: { parse: databaseUrl, fallback: '', secret: true, about: 'the same for the api alone; empty: database_url' },
  cell_database_url: { parse: databaseUrl, fallback: '', secret: true, about: 'the same for the cell alone; empty: database_url' },
  api_listen: { parse: address, fallback: address('127.0.0.1:8080'), about: 'where the application API listens' },
  cell_listen: { parse: address, fallback: address('127.0.0.1:8081'), about: 'where the gateway listens' },
  ports_listen: { parse: address, fallback: address('127.0.0.1:8084'), about: 'where the URLs of ports are served' },
  api_ops_listen: { parse: address, fallback: address('127.0.0.1:8082'), about: 'health and metrics of the api' },
  cell_ops_listen: { parse: address, fallback: address('127.0.0.1:8083'), about: 'health and metrics of the cell' },
  base_url: { parse: url, fallback: (settings) => urlOf(settings.api_listen), about: 'public address of the application API' },
  cell_endpoint: { parse: url, fallback: (settings) => urlOf(settings.cell_listen), about: 'public address of the gateway' },
  cors_origins: {
    parse: origins,
    fallback: [],
    about: 'origins, separated by commas, whose pages may call api and gateway from a browser, like https://app.example.com; empty: none',
  },
  ports_url: {
    parse: portsUrl,
    fallback: (settings) => `http://ports.localhost:${settings.ports_listen.port}`,
    about: 'scheme, host and public port that all URLs of ports share; each has a name below that host',
  },
  ports_certificate: {
    parse: pathOrNothing,
    fallback: '',
    about: 'file of a certificate for all names below the host of ports_url, which is read again when it changes; empty: no TLS there',
  },
  ports_key: { parse: pathOrNothing, fallback: '', about: 'file of its key, which the user berth-ports can read' },
  ports_trusted_proxies: {
    parse: prefixes,
    fallback: [],
    about: 'addresses or networks of proxies before the URLs of ports, separated by commas: whom they say a request is from is believed',
  },
  cell_name: { parse: slug, fallback: 'local', about: 'name of this computer among the cells of one database' },
  machine_network: { parse: network, fallback: '10.117.0.0/16', about: 'addresses for machines; nothing else may use them' },
  uplink: { parse: slug, fallback: 'host', about: "where machines' packets leave: host, none, or the name of a network namespace" },
  firewall: {
    parse: oneOf('auto', 'manual'),
    fallback: 'auto',
    about: "other firewalls of this computer: auto lets machines' packets through them, manual leaves that to you",
  },
  resolvers: { parse: addresses, fallback: [], about: "DNS servers for machines, separated by commas; empty: the host's" },
  secrets_ca: {
    parse: path,
    fallback: '',
    about: 'a file of authorities (PEM) by which servers that secrets go to are believed, beside those of this computer; empty: none',
  },
  pool_image_gib: {
    parse: wholeNumber(4, 1 << 20),
    fallback: (_, host) => defaultPoolGib(host),
    about: 'size of the disk image for workspaces',
  },
  pool_reserve_gib: {
    parse: number(0, 1 << 20),
    fallback: (settings) => settings.pool_image_gib / 20,
    about: 'kept free in it for suspends',
  },
  data_reserve_gib: {
    parse: number(0, 1 << 20),
    // The pool's image is fully allocated, so only the database, logs, layers, uploads and trees need this space.
    fallback: (_, host) => Math.max(2, Math.round(host.disk_gib * 5) / 100),
    about: 'kept free on the file system of data_dir: below it, calls that would fill it are refused',
  },
  slots: {
    parse: wholeNumber(0, 64),
    fallback: (_, host) => clamp(Math.round(host.memory_mib / 8192), 1, 4),
    about: 'machines kept ready for opens',
  },
  slot_cpu_millis: { parse: wholeNumber(100, 1_000_000), fallback: 2000, about: 'CPU of a slot' },
  slot_memory_mib: { parse: wholeNumber(64, 1 << 24), fallback: 1024, about: 'memory of a slot' },
  shells: {
    parse: wholeNumber(0, 64),
    fallback: (_, host) => clamp(Math.round(host.memory_mib / 8192), 1, 2),
    about: 'empty machines kept ready for resumes',
  },
  overcommit: { parse: number(0.1, 1000), fallback: 8, about: "how many times the host's CPUs are given to machines" },
  memory_overcommit: { parse: number(0.1, 100), fallback: 1, about: "how many times the host's memory is given to machines" },
  disk_overcommit: {
    parse: number(0.1, 1000),
    fallback: 8,
    about: 'how many times the pool is given to machines: disks grow as they are written',
  },
  memory_reserve_mib: {
    parse: wholeNumber(0, 1 << 24),
    fallback: (_, host) => Math.max(512, Math.round(host.memory_mib / 10)),
    about: 'memory of this computer that all machines together leave alone: for the service, the database and the kernel',
  },
  memory_headroom_mib: {
    parse: wholeNumber(0, 4096),
    fallback: 768,
    about: 'the most that a machine may use beyond its guest, for the engine itself, where there is room',
  },
  memory_headroom_min_mib: {
    parse: wholeNumber(0, 4096),
    fallback: (settings) => Math.min(192, settings.memory_headroom_mib),
    about: 'of that, what each machine can count on: an admission counts it beside what the guest is told',
  },
  capacity_cpu_millis: { parse: wholeNumber(0, 1 << 30), fallback: 0, about: 'CPU for machines; 0: from the host' },
  capacity_memory_mib: { parse: wholeNumber(0, 1 << 30), fallback: 0, about: 'memory for machines; 0: from the host' },
  edge_requests_per_minute: {
    parse: wholeNumber(0, 1 << 30),
    fallback: 0,
    about: 'requests of everybody together that an api serves; 0: no limit',
  },
  caller_requests_per_minute: {
    parse: wholeNumber(0, 1 << 30),
    fallback: 60_000,
    about: 'requests of one API key or person that an api serves; 0: no limit',
  },
  wrong_credentials_per_minute: {
    parse: wholeNumber(0, 1 << 30),
    fallback: 1200,
    about: 'credentials that are none which an api looks up for one address; 0: no limit',
  },
  layered_opens: {
    parse: oneOf('yes', 'no'),
    fallback: 'yes',
    about: 'whether new workspaces share the layers of their template; no: each has a full copy on its disk',
  },
  file_first: {
    parse: oneOf('yes', 'no'),
    fallback: 'yes',
    about:
      'whether workspaces may be opened file-first: their files are kept and served without a machine, and each command has one of its own',
  },
  template_uploads: {
    parse: oneOf('yes', 'no'),
    fallback: 'yes',
    about: 'whether tars for builds of templates may be uploaded: they lie in uploads/ of data_dir until they are not used any more',
  },
  package_mirror: {
    parse: urlOrNothing,
    fallback: 'http://deb.debian.org/debian',
    about: 'a mirror of Debian whose packages are looked up for recipes, as in sources.list; empty: none',
  },
  tree_revisions_kept_seconds: {
    parse: wholeNumber(60, 30 * 24 * 3600),
    fallback: 3600,
    about: 'how long an earlier revision of a file-first workspace is read, compared and restored after the next one',
  },
  tree_revisions_kept: {
    parse: wholeNumber(1, 10_000),
    fallback: 100,
    about: 'how many earlier revisions of a file-first workspace are kept',
  },
  registration: {
    parse: registration,
    fallback: 'invitation',
    about: 'who may register: invitation (those who are invited), open (everybody), or domains of addresses, separated by commas',
  },
  smtp_url: {
    parse: smtpUrl,
    fallback: '',
    secret: true,
    about:
      'where mail goes: smtps://user:password@host, smtp:// (after STARTTLS), smtp+insecure:// (without TLS); empty: files in data_dir/mail',
  },
  mail_from: { parse: mailbox, fallback: 'Berth <berth@localhost>', about: 'the sender of mail' },
  stripe_secret_key: {
    parse: stripeKey,
    fallback: '',
    secret: true,
    about: 'the key of a Stripe account that collects what invoices say; empty: an operator says what is paid',
  },
  stripe_webhook_secret: {
    parse: stripeWebhookSecret,
    fallback: '',
    secret: true,
    about: 'by which Stripe signs the events that it sends to base_url/v1/payment-events/stripe',
  },
  stripe_api_url: { parse: url, fallback: 'https://api.stripe.com', about: 'where the API of Stripe is' },
  payment_return_url: {
    parse: url,
    fallback: (settings) => settings.base_url,
    about: 'where people are led back to from pages of the payment service',
  },
  freeze_after_seconds: {
    parse: number(0, 1 << 20),
    fallback: 5,
    about: 'an unused machine stands still after so long, and goes on at the next call; 0: never',
  },
  hibernate_after_seconds: {
    parse: number(0, 1 << 20),
    fallback: 600,
    about: "an unused machine's memory is saved to the disk after so long, until the next call; 0: never",
  },
  engines_refused: {
    parse: engines,
    fallback: [],
    about: "versions of engines, separated by commas, under which nothing starts or resumes any more; 'others': all but the current one",
  },
  quarantine_days: {
    parse: number(0, 3650),
    fallback: 7,
    about: 'disks and checkpoints that the database does not know are kept for so long; 0: not at all',
  },
  warm_machines_max: {
    parse: number(0, 1000),
    fallback: 8,
    about: 'how many machines of warm template versions are kept saved on this computer; 0: every start is cold',
  },
  secret_keys_command: {
    parse: path,
    fallback: '',
    about: 'a program that wraps the keys of secrets and unwraps them, as the client of your key service; empty: they are files',
  },
  log_level: { parse: oneOf('debug', 'info', 'warn', 'error'), fallback: 'info', about: 'how much api and cell log' },
  show_logs: {
    parse: oneOf('yes', 'no'),
    fallback: 'no',
    about: 'whether the logs of all processes are printed too, for a journal or the output of a container',
  },
  runsc: { parse: path, fallback: '', about: 'a runsc to use; empty: built here' },
  hostd: { parse: path, fallback: '', about: 'a hostd to use; empty: built here' },
  agent: { parse: path, fallback: '', about: 'an agent to use; empty: built here' },
  portd: { parse: path, fallback: '', about: 'a portd to use; empty: built here' },
  supervisor: { parse: path, fallback: '', about: 'a supervisor to use; empty: built here' },
  failpoints: { parse: failpoints, fallback: '', flag_only: true, about: "places to fail at; for Berth's own tests" },
}

/** Variables that are read before the settings, or belong to tests and clients in the same terminal. */
const OTHER_VARIABLES = /^BERTH_(CONFIG|TEST_.*|URL|API_KEY|PROJECT|ORGANIZATION|PROFILE|CONFIG_DIR|MCP_TOKEN|NO_VERSION_CHECK)$/

/** An error of the user who starts Berth, shown without a stack. */
export class SettingsError extends Error {}

/**
 * `given` contains the source of each value. `flags` are texts.
 * @param facts `(settings) => host`, called when data_dir is known.
 */
export function resolveSettings({ flags, env, file, facts }) {
  refuseUnknown({ flags, env, file })
  const settings = {}
  const given = {}
  let host
  for (const [name, setting] of Object.entries(SETTINGS)) {
    const found = find(name, setting, { flags, env, file })
    given[name] = found?.source ?? 'default'
    if (found) settings[name] = parsed(setting, found, name)
    else settings[name] = typeof setting.fallback === 'function' ? setting.fallback(settings, host) : setting.fallback
    if (name === 'data_dir') {
      host = facts(settings)
      settings.instance = host.instance
    }
  }
  refuseHalf(settings)
  return { settings, given }
}

/** With one missing, calls to the payment service or its webhooks would fail at the first purchase. */
function refuseHalf({ stripe_secret_key, stripe_webhook_secret }) {
  const [missing, given] =
    stripe_secret_key === '' ? ['stripe_secret_key', 'stripe_webhook_secret'] : ['stripe_webhook_secret', 'stripe_secret_key']
  if ((stripe_secret_key === '') !== (stripe_webhook_secret === ''))
    throw new SettingsError(`${missing} is missing: ${given} is set, and neither is of use without the other.`)
}

export function withoutSecrets(settings) {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [name, SETTINGS[name]?.secret && value !== '' ? '(hidden)' : value]),
  )
}

export function variableOf(name) {
  return `BERTH_${name.toUpperCase()}`
}

export function flagOf(name) {
  return `--${name.replaceAll('_', '-')}`
}

function find(name, setting, { flags, env, file }) {
  if (flags[name] !== undefined) return { value: flags[name], source: flagOf(name) }
  if (setting.flag_only) return undefined
  for (const variable of [variableOf(name), setting.also]) {
    if (variable !== undefined && env[variable] !== undefined && env[variable] !== '') return { value: env[variable], source: variable }
  }
  if (file[name] !== undefined) return { value: file[name], source: 'file' }
  return undefined
}

function parsed(setting, { value, source }, name) {
  try {
    return setting.parse(value)
  } catch (error) {
    throw new SettingsError(`${source === 'file' ? `${name} in the configuration file` : source} ${error.message}.`)
  }
}

function refuseUnknown({ flags, env, file }) {
  const known = (name) => Object.hasOwn(SETTINGS, name)
  const settable = (name) => known(name) && !SETTINGS[name].flag_only
  const unknown = [
    ...Object.keys(flags)
      .filter((name) => !known(name))
      .map(flagOf),
    ...Object.keys(env).filter(
      (name) => name.startsWith('BERTH_') && !OTHER_VARIABLES.test(name) && !settable(name.slice(6).toLowerCase()),
    ),
    ...Object.keys(file)
      .filter((name) => !settable(name))
      .map((name) => `${name} in the configuration file`),
  ]
  if (unknown.length > 0) throw new SettingsError(`Unknown ${unknown.length === 1 ? 'setting' : 'settings'}: ${unknown.join(', ')}.`)
}

function defaultPoolGib(host) {
  if (host.pool_gib !== undefined) return host.pool_gib
  const gib = Math.min(64, Math.floor(host.free_gib / 2))
  if (gib < 4)
    throw new SettingsError(
      `The data directory's disk has ${host.free_gib.toFixed(1)} GiB free; workspaces need at least 8. Set data_dir or pool_image_gib.`,
    )
  return gib
}

function urlOf({ host, port }) {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}

function clamp(value, min, max) {
  return Math.min(max, Math.max(min, value))
}
