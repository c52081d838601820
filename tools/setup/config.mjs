import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { POSTGRES_DATABASE, POSTGRES_SUPERUSER } from './postgres.mjs'

const GIB = 2 ** 30
/** Value for tests that set failpoints later. */
const NO_FAILPOINTS = 'none'
/** A semi-space grows to 16 MiB by default. A service that copies bytes would fill that without benefit. */
const YOUNG_MIB = 4
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export function layoutOf(settings) {
  const { data_dir, run_dir } = settings
  const config = join(run_dir, 'config')
  return {
    postgres_data: join(data_dir, 'pg'),
    postgres_socket: join(run_dir, 'pg'),
    keys: join(data_dir, 'keys'),
    api_keys: join(data_dir, 'keys', 'api'),
    cell_keys: join(data_dir, 'keys', 'cell'),
    first_key: join(data_dir, 'keys', 'first-api-key'),
    layers: join(data_dir, 'layers'),
    trees: join(data_dir, 'trees'),
    uploads: join(data_dir, 'uploads'),
    pool_image: join(data_dir, 'pool.img'),
    mail: join(data_dir, 'mail'),
    logs: join(data_dir, 'logs'),
    compiled: join(data_dir, 'compiled'),
    /** Exists while a restore is unfinished: tools/backup/restore.mjs. */
    restoring: join(data_dir, '.restoring'),
    /** Private to one process, because Node runs the code that it finds here. */
    compiledOf: (name, version) => join(data_dir, 'compiled', `${name}-${version}`),
    app: join(run_dir, 'app'),
    pool_mount: join(run_dir, 'pool'),
    hostd_socket: join(run_dir, 'hostd', 'socket'),
    hostd_socket_dir: join(run_dir, 'hostd'),
    /** The folder has the proxy's group, and the cell's files in it inherit the group. */
    ports_socket: join(run_dir, 'ports', 'socket'),
    ports_socket_dir: join(run_dir, 'ports'),
    secrets_socket: join(run_dir, 'hostd', 'secrets'),
    announcement: join(run_dir, 'announcement'),
    config,
    configOf: (name) => join(config, `${name}.json`),
  }
}

/** The embedded server has one login per role. An external server has one login for all roles, unless others are set. */
export function databaseUrl(settings, login = POSTGRES_SUPERUSER) {
  if (settings.database_url !== '') return settings.database_url
  const socket = encodeURIComponent(layoutOf(settings).postgres_socket)
  return `postgres:///${POSTGRES_DATABASE}?host=${socket}&user=${login}`
}

export function hostdConfig(settings, { accounts, binaries, runsc, host }) {
  const layout = layoutOf(settings)
  return {
    instance: settings.instance,
    data_dir: settings.data_dir,
    run_dir: settings.run_dir,
    socket: layout.hostd_socket,
    socket_uid: accounts.cell.uid,
    socket_gid: accounts.cell.gid,
    runsc: runsc.path,
    agent: binaries.agent,
    machine_network: settings.machine_network,
    uplink: settings.uplink,
    firewall: settings.firewall,
    resolvers: settings.resolvers,
    caller_uids: [accounts.cell.uid, accounts.ports.uid],
    resolver_uid: accounts.resolver.uid,
    resolver_gid: accounts.resolver.gid,
    secrets_socket: layout.secrets_socket,
    secret_proxy_uid: accounts.secret_proxy.uid,
    secret_proxy_gid: accounts.secret_proxy.gid,
    secrets_ca: settings.secrets_ca,
    pool: {
      image: layout.pool_image,
      mount: layout.pool_mount,
      size_bytes: settings.pool_image_gib * GIB,
      reserve_bytes: Math.round(settings.pool_reserve_gib * GIB),
    },
    layers_dir: layout.layers,
    data_reserve_bytes: diskOf(settings).reserve_bytes,
    slots: { count: settings.slots, cpu_millis: settings.slot_cpu_millis, memory_mib: settings.slot_memory_mib },
    shells: { count: settings.shells },
    capacity: capacityOf(settings, host),
    memory_headroom_mib: settings.memory_headroom_mib,
    engines_refused: settings.engines_refused,
    memory_headroom_min_mib: settings.memory_headroom_min_mib,
    machines_memory_mib: machinesMemory(settings, host),
  }
}

function machinesMemory({ memory_reserve_mib }, { memory_mib }) {
  return Math.max(1, Math.floor(memory_mib) - memory_reserve_mib)
}

/** Memory reserved for a warm or blank sandbox, as in hostd. */
const WAITING_MIB = 64

function capacityOf(settings, host) {
  const memory = (machinesMemory(settings, host) - (settings.slots + settings.shells) * WAITING_MIB) * settings.memory_overcommit
  return {
    cpu_millis: settings.capacity_cpu_millis || Math.round(host.cpus * 1000 * settings.overcommit),
    memory_mib: settings.capacity_memory_mib || Math.max(0, Math.floor(memory)),
    disk_gib: Math.floor(settings.pool_image_gib * settings.disk_overcommit),
  }
}

export function apiConfig(settings) {
  const { edge_requests_per_minute, caller_requests_per_minute, wrong_credentials_per_minute, layered_opens, file_first } = settings
  const { ports_url } = settings
  return {
    ...processConfig(settings, 'api'),
    ports_url,
    signing_keys_dir: layoutOf(settings).api_keys,
    edge_requests_per_minute,
    caller_requests_per_minute,
    wrong_credentials_per_minute,
    layered_opens: layered_opens === 'yes',
    file_first: file_first === 'yes',
    uploads_dir: settings.template_uploads === 'yes' ? layoutOf(settings).uploads : '',
    package_mirror: settings.package_mirror,
    registration: settings.registration,
    stripe: stripeOf(settings),
    mail: { smtp_url: settings.smtp_url, from: settings.mail_from, directory: layoutOf(settings).mail },
  }
}

function stripeOf({ stripe_secret_key, stripe_webhook_secret, stripe_api_url, payment_return_url }) {
  if (stripe_secret_key === '') return null
  return { secret_key: stripe_secret_key, webhook_secret: stripe_webhook_secret, api_url: stripe_api_url, return_url: payment_return_url }
}

export function cellConfig(settings) {
  const { cell_name, freeze_after_seconds, hibernate_after_seconds, quarantine_days, warm_machines_max, secret_keys_command } = settings
  const tree_revisions_kept = { seconds: settings.tree_revisions_kept_seconds, count: settings.tree_revisions_kept }
  const park_after = { freeze_after_seconds, hibernate_after_seconds }
  const { hostd_socket, ports_socket, secrets_socket, trees: trees_dir, cell_keys: secret_keys_dir } = layoutOf(settings)
  const uploads_dir = settings.template_uploads === 'yes' ? layoutOf(settings).uploads : ''
  const secrets = { secrets_socket, secret_keys_dir, secret_keys_command }
  const own = {
    cell_name,
    hostd_socket,
    ports_socket,
    trees_dir,
    uploads_dir,
    tree_revisions_kept,
    ...secrets,
    park_after,
    quarantine_days,
    warm_machines_max,
  }
  return { ...processConfig(settings, 'cell'), ...own }
}

const PORTS_DRAIN_SECONDS = 8

export function portsConfig(settings) {
  const { protocol, hostname } = new URL(settings.ports_url)
  return {
    listen: addressText(settings.ports_listen),
    port_host: hostname,
    public_scheme: protocol.slice(0, -1),
    socket: layoutOf(settings).ports_socket,
    certificate: settings.ports_certificate,
    key: settings.ports_key,
    trusted_proxies: settings.ports_trusted_proxies,
    drain_seconds: PORTS_DRAIN_SECONDS,
  }
}

export function setupConfig(settings, templates) {
  const layout = layoutOf(settings)
  return {
    database_url: databaseUrl(settings),
    embedded: settings.database_url === '',
    base_url: settings.base_url,
    first_key_file: layout.first_key,
    announcement_file: layout.announcement,
    mail_directory: settings.smtp_url === '' ? layout.mail : '',
    templates: templates.map(({ name, digest, settings }) => ({ name, digest, settings })),
  }
}

function processConfig(settings, name) {
  return {
    instance: settings.instance,
    listen: settings[`${name}_listen`],
    ops_listen: settings[`${name}_ops_listen`],
    base_url: settings.base_url,
    cell_endpoint: settings.cell_endpoint,
    cors_origins: settings.cors_origins,
    database_url: settings[`${name}_database_url`] || databaseUrl(settings, `berth_${name}`),
    log_level: settings.log_level,
    disk: diskOf(settings),
  }
}

function diskOf({ data_dir, data_reserve_gib }) {
  return { folder: data_dir, reserve_bytes: Math.round(data_reserve_gib * GIB) }
}

/** `versions`: digests of what a child reads at its start, besides its command line. */
export function supervisorConfig(settings, made) {
  const layout = layoutOf(settings)
  return {
    instance: settings.instance,
    run_dir: settings.run_dir,
    log_dir: layout.logs,
    mounts: [{ source: made.clone, target: layout.app }],
    announcement: layout.announcement,
    show_logs: settings.show_logs === 'yes',
    children: childrenOf({ settings, layout, failpoints: failpointsOf(settings.failpoints), ...made }),
  }
}

function childrenOf(tree) {
  const { settings } = tree
  return [
    ...(settings.database_url === '' ? [postgresChild(tree)] : []),
    childOf(tree, 'bootstrap', { stage: 2, once: true, argv: serviceArgv(tree, 'bootstrap'), ...ROOT }),
    hostdChild(tree),
    servingChild(tree, 'api'),
    servingChild(tree, 'cell'),
    portdChild(tree),
  ]
}

const ROOT = { uid: 0, gid: 0 }

function childOf({ versions }, name, rest) {
  return {
    name,
    dir: '/',
    env: [`PATH=${PATH}`, 'LANG=C.UTF-8', 'TZ=UTC'],
    version: versions[name] ?? '',
    stop_signal: 'SIGTERM',
    stop_seconds: 10,
    start_seconds: 300, // the start on an emulated computer is about 60 times slower
    ready: {},
    ...rest,
  }
}

function postgresChild(tree) {
  const { layout, accounts, postgres_bin } = tree
  return childOf(tree, 'postgres', {
    stage: 1,
    argv: [join(postgres_bin, 'postgres'), '-D', layout.postgres_data],
    ...accounts.postgres,
    ready: { unix: join(layout.postgres_socket, '.s.PGSQL.5432') },
    stop_signal: 'SIGINT', // "fast" shutdown: closes connections and writes a checkpoint
    stop_seconds: 60,
  })
}

function hostdChild(tree) {
  const { layout, binaries, failpoints } = tree
  return childOf(tree, 'hostd', {
    stage: 2,
    argv: [binaries.hostd, '--config', layout.configOf('hostd'), ...underTest(tree)],
    ...ROOT,
    first_env: failpoints.hostd ? [`BERTH_FAILPOINT=${failpoints.hostd}`] : [],
    ready: { unix: layout.hostd_socket, path: '/healthz' },
    stop_seconds: 20,
  })
}

/** Configuration of the child `api` or `cell`. */
function servingChild(tree, name) {
  const { settings, layout, accounts, failpoints } = tree
  const ready = { tcp: addressText(settings[`${name}_ops_listen`]), path: '/readyz' }
  const made = childOf(tree, name, { stage: 3, argv: [...serviceArgv(tree, name), ...underTest(tree)], ...accounts[name], ready })
  const compiled = `NODE_COMPILE_CACHE=${layout.compiledOf(name, made.version)}`
  return { ...made, env: [...made.env, compiled, ...(failpoints[name] ? [`BERTH_FAILPOINT=${failpoints[name]}`] : [])] }
}

function portdChild(tree) {
  const { settings, layout, accounts, binaries } = tree
  return childOf(tree, 'portd', {
    stage: 3,
    argv: [binaries.portd, '--config', layout.configOf('portd')],
    ...accounts.ports,
    ready: { tcp: probeText(settings.ports_listen) },
    stop_seconds: PORTS_DRAIN_SECONDS + 4,
  })
}

function serviceArgv({ layout, clone, node }, command) {
  const underApp = (path) => (path.startsWith(`${clone}/`) ? join(layout.app, path.slice(clone.length + 1)) : path)
  return [
    underApp(node),
    '--disable-warning=ExperimentalWarning',
    `--max-semi-space-size=${YOUNG_MIB}`,
    join(layout.app, 'service', 'main.ts'),
    command,
    '--config',
    layout.configOf(command),
  ]
}

function underTest({ settings }) {
  return settings.failpoints === '' ? [] : ['--enable-failpoints']
}

/** Failpoints that are not of hostd are passed to both api and cell. */
export function failpointsOf(text) {
  const points = text.split(',').filter((each) => each !== '' && each !== NO_FAILPOINTS)
  const others = points.filter((each) => !each.startsWith('hostd/')).join(',')
  return {
    hostd: points
      .filter((each) => each.startsWith('hostd/'))
      .map((each) => each.slice('hostd/'.length))
      .join(','),
    api: others,
    cell: others,
  }
}

/** A server that listens on `0.0.0.0` or `::` is probed on the loopback address. */
function probeText({ host, port }) {
  return addressText({ host: { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host, port })
}

export function addressText({ host, port }) {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

export function versionOf(...contents) {
  const hash = createHash('sha256')
  for (const content of contents) hash.update(`${content.length}\0`).update(content)
  return hash.digest('hex').slice(0, 16)
}
