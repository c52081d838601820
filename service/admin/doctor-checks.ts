import type { FirewallFound } from '../../contract/internal/host-inventory.ts'
import type { DoctorPaths, Facts, HostFacts } from './doctor-facts.ts'
import { ofUsage } from './doctor-usage.ts'
import { ofMemory, unrestorableOn } from './doctor-memory.ts'
import { ROWS_MAX, type StoredFacts } from './doctor-store.ts'

export interface Finding {
  check: string
  /** `wrong`: an operator must act. `notice`: may resolve by itself, or may be intended. */
  level: 'ok' | 'notice' | 'wrong'
  text: string
}

type Level = Finding['level']
const finding = (check: string, level: Level, text: string): Finding => ({ check, level, text })
const GIB = 2 ** 30
const gib = (bytes: number) => `${(bytes / GIB).toFixed(1)} GiB`
const NAMED_MAX = 5
const KEY_ID_SHOWN = 8
const named = (list: string[]) =>
  list.slice(0, NAMED_MAX).join(', ') + (list.length > NAMED_MAX ? ` and ${list.length - NAMED_MAX} more` : '')

const CLOCK_SECONDS_MAX = 2
const SEEN_SECONDS_MAX = 180
const OPERATION_SECONDS_NOTICE = 60
const OPERATION_SECONDS_MAX = 20 * 60 // 15 minutes of waiting for capacity, and a slow start
const ATTEMPTS_NOTICE = 3

export function judge(places: DoctorPaths, facts: Facts): Finding[] {
  return [
    ...ofKernel(facts),
    ...ofProcesses(facts),
    ...ofDisk(places, facts),
    ...ofHost(places, facts),
    ...(facts.stored === null
      ? [finding('database', 'wrong', 'The database does not answer, or is empty')]
      : ofDatabase(places, facts, facts.stored)),
    ...(facts.stored === null ? [] : ofSecrets(facts, facts.stored)),
    ...(facts.stored === null ? [] : [ofMail(places, facts.stored)]),
    ...(facts.stored === null ? [] : ofUsage(facts.stored.usage, facts.counters, facts.stored.now)),
    ...(facts.stored === null || facts.host === null ? [] : ofBoth(facts.stored, facts.host)),
    ...(facts.stored === null || facts.host === null ? [] : ofPool(facts.stored, facts.host)),
    ...(facts.stored === null || facts.layers === null ? [] : [ofLayers(places, facts.layers, facts.stored)]),
  ]
}

/** Decision 230: unreferenced layers are removed automatically. */
function ofLayers({ cell_name }: DoctorPaths, layers: { size_bytes: number }[], { unnamed_layers }: StoredFacts): Finding {
  const all = gib(layers.reduce((sum, { size_bytes }) => sum + size_bytes, 0))
  const unnamed = unnamed_layers.find((each) => each.cell_name === cell_name)
  const of_them =
    unnamed === undefined ? 'each has a name' : `${unnamed.count} of ${gib(unnamed.bytes)} are named by nothing and go by themselves`
  return finding('layers', 'ok', `${layers.length} images of templates' layers, ${all}; ${of_them}`)
}

function ofKernel({ kernel }: Facts): Finding[] {
  const missing = ['overlay', 'erofs', 'btrfs'].filter((name) => !kernel.filesystems.includes(name))
  return [
    finding('kernel', 'ok', `Linux ${kernel.release}, cgroup ${kernel.cgroup}`),
    missing.length === 0
      ? finding('file_systems', 'ok', 'overlay, erofs and btrfs are there')
      : finding('file_systems', 'notice', `Not loaded: ${missing.join(', ')} (a module may be loaded when it is needed)`),
    ...(kernel.seccomp ? [] : [finding('seccomp', 'wrong', 'The kernel has no seccomp: machines are not confined')]),
    ...(kernel.loop ? [] : [finding('loop_devices', 'wrong', 'The kernel has no loop devices: the pool cannot be mounted')]),
    ...(kernel.user_is_root ? [] : [finding('user', 'notice', 'The doctor does not run as root and cannot see everything')]),
  ]
}

function ofProcesses({ processes, api_ready, cell_ready }: Facts): Finding[] {
  const dead = Object.keys(processes).filter((name) => processes[name] === false)
  const notReady = [...(api_ready ? [] : ['api']), ...(cell_ready ? [] : ['cell'])]
  return [
    dead.length === 0
      ? finding('processes', 'ok', `${Object.keys(processes).join(', ')} run`)
      : finding('processes', 'wrong', `Not running: ${dead.join(', ')}`),
    notReady.length === 0 ? finding('ready', 'ok', 'api and cell serve') : finding('ready', 'wrong', `Not ready: ${notReady.join(', ')}`),
  ]
}

function ofSecrets({ sealing_key_files }: Facts, { sealing_keys }: StoredFacts): Finding[] {
  const [newest, ...before] = sealing_keys
  if (newest === undefined) return [finding('secret_keys', 'notice', 'No cell has made the key of secrets yet')]
  const missing = sealing_keys.filter(
    ({ key_id, values }) => (key_id === newest.key_id || values > 0) && !sealing_key_files.includes(key_id),
  )
  const counts = sealing_keys.map(({ key_id, values }) => `${key_id.slice(0, KEY_ID_SHOWN)} has ${values}`).join(', ')
  return [
    missing.length === 0
      ? finding('secret_keys', 'ok', `Values of secrets by key: ${counts}`)
      : finding('secret_keys', 'wrong', `Files of keys of secrets are missing: ${named(missing.map(({ key_id }) => key_id))}`),
    ...(before.some(({ values }) => values > 0)
      ? [finding('secret_rotation', 'notice', 'A rotation of the key of secrets has not ended: npm run admin -- keys rotate-kek')]
      : []),
  ]
}

function ofMail({ mail_directory = '' }: DoctorPaths, { mails }: StoredFacts): Finding {
  const { waiting, tried, oldest_seconds, given_up } = mails
  const where = mail_directory === '' ? 'to the server of smtp_url' : `as files to ${mail_directory}: no smtp_url is set`
  if (tried > 0)
    return finding(
      'mail',
      'notice',
      `${tried} mails could not be sent yet, the oldest for ${Math.round(oldest_seconds)} s; see the api's log`,
    )
  if (given_up > 0) return finding('mail', 'notice', `${given_up} mails were given up in the last days; see the api's log`)
  return finding('mail', 'ok', `Mail goes ${where}${waiting > 0 ? `; ${waiting} wait` : ''}`)
}

const NEARLY = 1.2

export function ofDisk(
  { data_reserve_bytes = 0 }: Pick<DoctorPaths, 'data_reserve_bytes'>,
  { data_free_bytes, data_bytes, host }: Pick<Facts, 'data_free_bytes' | 'data_bytes' | 'host'>,
): Finding[] {
  const is_short = data_free_bytes < data_reserve_bytes
  const what = is_short ? 'calls that would fill it are refused until there is room' : 'below it, calls that would fill it are refused'
  const text = `${gib(data_free_bytes)} of ${gib(data_bytes)} free where the data lies, ${gib(data_reserve_bytes)} of it kept free: ${what}`
  const own = finding('data_disk', is_short ? 'wrong' : data_free_bytes < data_reserve_bytes * NEARLY ? 'notice' : 'ok', text)
  if (host === null) return [own]
  const { pool_bytes, pool_free_bytes, reserve_bytes } = host.capacity
  const usable = pool_free_bytes - reserve_bytes
  const level: Level = usable <= 0 ? 'wrong' : usable < pool_bytes / 10 ? 'notice' : 'ok'
  return [own, finding('pool', level, `${gib(pool_free_bytes)} of ${gib(pool_bytes)} free, ${gib(reserve_bytes)} of it kept for suspends`)]
}

function ofHost(places: DoctorPaths, { host, leftovers, firewalls }: Facts): Finding[] {
  if (host === null) return [finding('hostd', 'wrong', 'hostd does not answer; machines run on without it')]
  const short = host.slots < places.slots || host.shells < places.shells
  const found = leftovers?.found ?? []
  return [
    finding('hostd', 'ok', `engine ${host.engine}, ${host.machines.length} machines${keptBeside(host)}`),
    ofResolver(host),
    ...ofFirewalls(firewalls),
    finding(
      'ready_ahead',
      short ? 'notice' : 'ok',
      `${host.slots} of ${places.slots} slots and ${host.shells} of ${places.shells} shells wait`,
    ),
    found.length === 0
      ? finding('leftovers', 'ok', `Nothing without an owner; ${leftovers?.removed_total ?? 0} removed since hostd began`)
      : finding('leftovers', 'notice', `Without an owner, removed within a minute: ${named(found)}`),
  ]
}

function ofResolver({ resolver: { serving, starts } }: HostFacts): Finding {
  if (!serving) return finding('names', 'wrong', `Machines' DNS questions are not answered; the resolver was started ${starts} times`)
  return finding('names', 'ok', `Machines' DNS questions are answered; the resolver died ${starts - 1} times since hostd began`)
}

/** A packet must pass every firewall of the computer. */
export function ofFirewalls(firewalls: FirewallFound[]): Finding[] {
  const recipe = 'npm run admin -- firewall prints the commands that let them through'
  const of = (wanted: FirewallFound['state']) => firewalls.filter(({ state }) => state === wanted)
  const names = (list: FirewallFound[]) => named(list.map(({ name }) => name))
  const closed = of('closed').map(({ name, why }) => `${name} (${why ?? 'no reason is known'})`)
  if (closed.length > 0)
    return [finding('firewall', 'wrong', `Machines' packets may be dropped, since Berth could not change ${named(closed)}; ${recipe}`)]
  // Berth cannot check the rules of such a firewall, so the finding only names it.
  if (of('manual').length > 0)
    return [finding('firewall', 'ok', `Yours to let machines' packets through (setting firewall): ${names(of('manual'))}; ${recipe}`)]
  const found = firewalls.length === 0 ? 'No other firewall drops what is forwarded' : `Machines' packets pass ${names(firewalls)}`
  return [finding('firewall', 'ok', found)]
}

function keptBeside({ engine, engines }: HostFacts): string {
  const older = engines.filter((each) => each !== engine)
  return older.length === 0 ? '' : `; kept for what older ones began: ${named(older)}`
}

function ofDatabase(places: DoctorPaths, { clock_at }: Facts, stored: StoredFacts): Finding[] {
  const off_seconds = Math.abs(clock_at.getTime() - stored.now.getTime()) / 1000
  const counted = stored.states.map(({ state, count }) => `${count} ${state}`).join(', ')
  return [
    finding('database', 'ok', `PostgreSQL ${stored.server_version}; workspaces: ${counted === '' ? 'none' : counted}`),
    finding(
      'clock',
      off_seconds > CLOCK_SECONDS_MAX ? 'wrong' : 'ok',
      `This computer's and the database's clock differ by ${off_seconds.toFixed(1)} s`,
    ),
    ...ofCell(places, clock_at, stored),
    ...ofOperations(stored),
    ofCapacity(stored),
    stored.stale_holds.length === 0
      ? finding('holds', 'ok', 'Every hold has an operation')
      : finding('holds', 'wrong', `Held by operations that are over: ${named(stored.stale_holds)}`),
  ]
}

function ofCell({ cell_name }: DoctorPaths, clock_at: Date, { cells }: StoredFacts): Finding[] {
  const cell = cells.find(({ name }) => name === cell_name)
  if (cell === undefined) return [finding('lease', 'wrong', `No cell of the name ${cell_name} has ever started`)]
  const silent_seconds = cell.seen_at === null ? Infinity : (clock_at.getTime() - cell.seen_at.getTime()) / 1000
  return [
    cell.owner === null
      ? finding('lease', 'wrong', `No process acts for the cell ${cell_name}`)
      : finding('lease', 'ok', `One process acts for the cell ${cell_name}`),
    finding(
      'reconciled',
      silent_seconds > SEEN_SECONDS_MAX ? 'wrong' : 'ok',
      `The cell and its host were in contact ${Math.round(silent_seconds)} s ago`,
    ),
  ]
}

function ofOperations({ operations }: StoredFacts): Finding[] {
  const about = ({ id, kind, state, age_seconds, attempt }: StoredFacts['operations'][number]) =>
    `${kind} ${id} (${state}, ${Math.round(age_seconds)} s, attempt ${attempt})`
  const stuck = operations.filter(({ age_seconds }) => age_seconds > OPERATION_SECONDS_MAX)
  const slow = operations.filter(
    ({ age_seconds, state, attempt }) =>
      (state !== 'capacity_pending' && age_seconds > OPERATION_SECONDS_NOTICE) || attempt >= ATTEMPTS_NOTICE,
  )
  if (stuck.length > 0) return [finding('operations', 'wrong', `Stuck: ${named(stuck.map(about))}`)]
  if (slow.length > 0) return [finding('operations', 'notice', `Slow: ${named(slow.map(about))}`)]
  return [finding('operations', 'ok', `${operations.length} under way, none is slow`)]
}

export function ofCapacity({ operations }: Pick<StoredFacts, 'operations'>): Finding {
  const waiting = operations.filter(({ state }) => state === 'capacity_pending')
  if (waiting.length === 0) return finding('capacity', 'ok', 'No operation waits for capacity')
  const counts = new Map<string, number>()
  for (const name of waiting.flatMap(({ short }) => short ?? ['a host'])) counts.set(name, (counts.get(name) ?? 0) + 1)
  const resources = [...counts].map(([name, count]) => `${count} for ${name}`).join(', ')
  const longest_seconds = Math.round(Math.max(...waiting.map(({ age_seconds }) => age_seconds)))
  return finding('capacity', 'notice', `${waiting.length} operations wait for capacity, the longest for ${longest_seconds} s: ${resources}`)
}

function ofPool({ installation }: StoredFacts, host: HostFacts): Finding[] {
  const volumes = host.volumes.flatMap(({ volume_id, kept_since }) =>
    kept_since === undefined ? [] : [`volume ${volume_id} since ${kept_since}`],
  )
  const of_workspaces = host.workspaces.flatMap(({ workspace_id, quarantined }) =>
    quarantined.map(({ kind, name, since }) =>
      kind === 'subject' ? `workspace ${name} since ${since}` : `${kind} ${name} of ${workspace_id} since ${since}`,
    ),
  )
  const kept = [...of_workspaces, ...volumes]
  const isStrange = host.installation !== '' && host.installation !== installation
  const strange = `The pool belongs to installation ${host.installation}, the database is of ${installation}: nothing is changed in the pool`
  return [
    isStrange
      ? finding('installation', 'wrong', strange)
      : finding('installation', 'ok', `Database and pool are of installation ${installation}`),
    kept.length === 0
      ? finding('quarantine', 'ok', 'Nothing is kept that the database does not name')
      : finding('quarantine', 'notice', `Kept for quarantine_days, and not named by the database: ${named(kept)}`),
  ]
}

function ofBoth(stored: StoredFacts, host: HostFacts): Finding[] {
  if (stored.workspaces.length >= ROWS_MAX)
    return [finding('rows', 'notice', `More than ${ROWS_MAX} workspaces: rows and files were not compared`)]
  const rows = new Map(stored.workspaces.map((row) => [row.id, row]))
  const isActive = (id: string) => rows.get(id)?.active === true
  const machines = new Map(host.machines.map((machine) => [machine.workspace_id, machine]))
  const files = new Set(host.workspaces.flatMap(({ checkpoints }) => checkpoints.map(({ checkpoint_id }) => checkpoint_id)))
  const disks = new Set(host.workspaces.flatMap(({ workspace_id, disks: names }) => names.map((name) => `${workspace_id} ${name}`)))
  const stranded = unrestorableOn(stored, host)
  const told = new Set(stranded.map(({ checkpoint_id }) => checkpoint_id))
  const recorded = new Set(stored.checkpoints.map(({ id }) => id))
  const quiet = stored.workspaces.filter(({ active }) => !active)
  const lists: [string, Level, string, string[]][] = [
    [
      'machines',
      'wrong',
      'Running without a machine',
      // A hibernated workspace needs no machine: it has only its checkpoint.
      quiet
        .filter(({ id, observed_state, disk }) => observed_state === 'running' && disk !== null && !machines.has(id))
        .map(({ id }) => id),
    ],
    [
      'machines',
      'notice',
      'Machines that no running workspace has',
      host.machines
        .filter(
          ({ workspace_id, epoch }) =>
            !isActive(workspace_id) &&
            !(rows.get(workspace_id)?.observed_state === 'running' && rows.get(workspace_id)?.ownership_epoch === epoch),
        )
        .map(({ workspace_id }) => workspace_id),
    ],
    [
      'checkpoints',
      'wrong',
      'Rows without whole files',
      stored.checkpoints
        .filter(({ id, workspace_id }) => !files.has(id) && !isActive(workspace_id) && rows.has(workspace_id))
        .map(({ id }) => id),
    ],
    [
      'checkpoints',
      'notice',
      'Files without a row',
      host.workspaces
        .filter(({ workspace_id }) => !isActive(workspace_id))
        .flatMap(({ checkpoints }) => checkpoints.map(({ checkpoint_id }) => checkpoint_id))
        .filter((id) => !recorded.has(id)),
    ],
    [
      'checkpoints',
      'wrong',
      'Of an engine that is not kept: they cannot be resumed',
      stored.checkpoints.filter(({ id, engine }) => engine !== '' && !host.engines.includes(engine) && !told.has(id)).map(({ id }) => id),
    ],
    ['disks', 'wrong', 'Missing', quiet.filter(({ id, disk }) => disk !== null && !disks.has(`${id} ${disk}`)).map(({ id }) => id)],
  ]
  const agreeing = ['machines', 'checkpoints', 'disks'].flatMap((check) => {
    const bad = lists.filter(([name, , , list]) => name === check && list.length > 0)
    if (bad.length === 0) return [finding(check, 'ok', 'Rows and host agree')]
    return bad.map(([, level, what, list]) => finding(check, level, `${what}: ${named(list)}`))
  })
  return [...agreeing, ...ofMemory(stranded, host, named)]
}
