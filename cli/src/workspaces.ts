import type { OpenOptions, RunsQuery } from '../../sdk/typescript/src/main.ts'
import { type CliCommand, type Context, namedValue, type Run, usageError } from './command.ts'

const WORKSPACE_COLUMNS = ['key', 'observed_state', 'mode', 'template.slug', 'id']
const FILE_COLUMNS = ['name', 'type', 'size', 'mode', 'modified_at']

const lifecycle = (
  name: string,
  does: string,
  run: (context: Context, words: readonly string[]) => Promise<unknown>,
  takes = 'WORKSPACE',
  words: readonly [number, number] = [1, 1],
): CliCommand => ({
  name,
  takes,
  does,
  words,
  async run(context, given) {
    const shown = await run(context, given)
    if (shown !== undefined) context.print(shown)
    return 0
  },
})

const open: Run = async ({ berth, flags, print }, [key = '']) => {
  const { template, mode, lifetime, 'idle-policy': idle_policy } = flags
  const secrets = flags['secret'] as unknown as string[] | undefined
  const given = { template, mode, lifetime, idle_policy, secrets, inputs: inputsOf(flags), ...sizesOf(flags) }
  const options = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as OpenOptions
  const { view } = await berth().open(key, options)
  print(view, ['key', 'observed_state', 'mode', 'template.slug', 'id'])
  return 0
}

export const TEMPLATE_FLAG = {
  type: 'string',
  value: 'SLUG[@VERSION]',
  says: 'SLUG of a template, whose newest published version is taken, or SLUG@VERSION; base where it is not said',
} as const

const SIZE_FLAGS = {
  memory: { type: 'string', value: 'SIZE', says: 'memory, such as 4GiB or 512MiB' },
  cpu: { type: 'string', value: 'N', says: 'processors, such as 2 or 0.5' },
  disk: { type: 'string', value: 'SIZE', says: 'size of the disk, such as 20GiB' },
} as const

function sizesOf(flags: Context['flags']): { memory_mib?: number; cpu_millis?: number; disk_gib?: number } {
  const of = (name: string, factor: number) => (typeof flags[name] === 'string' ? { [name]: sizeOf(name, flags[name], factor) } : {})
  const { memory, cpu, disk } = { ...of('memory', 1), ...of('disk', 1 / 1024), ...of('cpu', 1000) } as Partial<Record<string, number>>
  return {
    ...(memory === undefined ? {} : { memory_mib: memory }),
    ...(cpu === undefined ? {} : { cpu_millis: cpu }),
    ...(disk === undefined ? {} : { disk_gib: disk }),
  }
}

const MIB_IN = {
  cpu: { '': 1 },
  memory: { '': 1, m: 1, mib: 1, g: 1024, gib: 1024 },
  disk: { '': 1024, g: 1024, gib: 1024, t: 1 << 20, tib: 1 << 20 },
}
const EXAMPLES = { cpu: '--cpu 2', memory: '--memory 4GiB', disk: '--disk 20GiB' }

function sizeOf(name: string, text: string, factor: number): number {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text) ?? []
  const units: Partial<Record<string, number>> = MIB_IN[name as keyof typeof MIB_IN]
  const value = Number(number) * (units[unit.toLowerCase()] ?? Number.NaN) * factor
  if (number === '' || !Number.isInteger(value) || value <= 0)
    throw usageError(`--${name} does not take ${text}`, `berth open KEY ${EXAMPLES[name as keyof typeof EXAMPLES]}`)
  return value
}

function inputsOf(flags: Context['flags']): Record<string, string> | undefined {
  const given = flags['input'] as unknown as string[] | undefined
  return given && Object.fromEntries(given.map((pair) => namedValue('input', pair)))
}

const list: Run = async ({ berth, flags, print }) => {
  const prefix = flags['prefix']
  const views = await berth()
    .workspaces({ lifetime: 'any', ...(typeof prefix === 'string' ? { key_prefix: prefix } : {}) })
    .all()
  print(views, WORKSPACE_COLUMNS)
  return 0
}

const logs: Run = async ({ workspace, flags }, [name = '', session = '']) => {
  const ws = await workspace(name)
  const offsets = { stdout_offset: Number(flags['stdout-offset'] ?? 0), stderr_offset: Number(flags['stderr-offset'] ?? 0) }
  const { follow } = await import('./exec.ts')
  return follow(ws.command(session), { ...offsets, follow: flags['no-follow'] !== true })
}

const STATE_FLAG = { state: { type: 'string', value: 'STATE', says: 'running or ended; both where it is not said' } } as const
const COMMAND_COLUMNS = ['id', 'state', 'exit_code', 'started_at', 'ended_at', 'command']
const PROCESS_COLUMNS = ['pid', 'ppid', 'user', 'state', 'cpu_ms', 'memory_bytes', 'name', 'session_id']
const ROWS_MAX = 200

function stateOf({ state }: Context['flags']): RunsQuery {
  if (state === undefined) return { limit: ROWS_MAX }
  if (state !== 'running' && state !== 'ended') throw usageError(`--state takes running or ended, not ${String(state)}`)
  return { state, limit: ROWS_MAX }
}

const lineOf = (argv: readonly string[] | null, is_cut: boolean) => (argv === null ? null : `${argv.join(' ')}${is_cut ? ' …' : ''}`)

const listCommands: Run = async ({ workspace, flags, print, say }, [name = '']) => {
  const ws = await workspace(name)
  const query = stateOf(flags)
  if (ws.view.mode === 'file_first') {
    const { data, next_cursor } = await ws.executions(query).page()
    const rows = data.map(({ execution_id: id, argv, argv_truncated, created_at, finished_at, ...row }) => ({
      id,
      ...row,
      started_at: created_at,
      ended_at: finished_at,
      command: lineOf(argv, argv_truncated),
    }))
    print(rows, COMMAND_COLUMNS)
    if (next_cursor !== null) say(MORE)
    return 0
  }
  const { data, next_cursor } = await ws.commands(query).page()
  print(
    data.map(({ session_id: id, argv, argv_truncated, ...row }) => ({ id, ...row, command: lineOf(argv, argv_truncated) })),
    COMMAND_COLUMNS,
  )
  if (next_cursor !== null) say(MORE)
  return 0
}

const listTerminals: Run = async ({ workspace, flags, print, say }, [name = '']) => {
  const { data, next_cursor } = await (await workspace(name)).terminals(stateOf(flags)).page()
  print(
    data.map(({ session_id: id, argv, argv_truncated, ...row }) => ({ id, ...row, command: lineOf(argv, argv_truncated) })),
    COMMAND_COLUMNS,
  )
  if (next_cursor !== null) say(MORE)
  return 0
}

const MORE = `There are more; these are the newest ${ROWS_MAX}`

export const WORKSPACES: CliCommand[] = [
  {
    name: 'open',
    takes: 'KEY',
    does: 'open a key: make its workspace, or find, resume or restart it',
    flags: {
      template: TEMPLATE_FLAG,
      ...SIZE_FLAGS,
      secret: {
        type: 'string',
        multiple: true,
        value: 'NAME',
        says: 'name of a secret that the workspace gets; may be given several times',
      },
      input: {
        type: 'string',
        multiple: true,
        value: 'NAME=VALUE',
        says: 'NAME=VALUE of a text input of the template; may be given several times',
      },
      mode: { type: 'string', value: 'MODE', says: 'processful or file_first' },
      lifetime: { type: 'string', value: 'LIFETIME', says: 'persistent or session' },
      'idle-policy': { type: 'string', value: 'POLICY', says: 'adaptive, never or fixed:SECONDS' },
    },
    words: [1, 1],
    run: open,
  },
  {
    name: 'list',
    does: 'list workspaces',
    flags: { prefix: { type: 'string', value: 'PREFIX', says: 'list keys that begin so' } },
    words: [0, 0],
    run: list,
  },
  lifecycle('show', 'show a workspace', async ({ workspace }, [name = '']) => (await workspace(name)).view),
  {
    name: 'logs',
    takes: 'WORKSPACE COMMAND_ID',
    does: 'show what a command wrote, and follow it to its end',
    flags: {
      'stdout-offset': { type: 'string', value: 'BYTE', says: 'byte of standard output to begin at' },
      'stderr-offset': { type: 'string', value: 'BYTE', says: 'byte of standard error to begin at' },
      'no-follow': { type: 'boolean', says: 'what there is, and no waiting for more' },
    },
    words: [2, 2],
    run: logs,
  },
  lifecycle(
    'signal',
    'send a signal, such as SIGINT, to a command and what it started',
    async ({ workspace }, [name = '', id = '', signal = '']) => (await workspace(name)).command(id).signal(signal),
    'WORKSPACE COMMAND_ID SIGNAL',
    [3, 3],
  ),
  lifecycle(
    'cancel',
    'end a command: SIGTERM, and SIGKILL after its grace',
    async ({ workspace }, [name = '', id = '']) => (await workspace(name)).command(id).cancel(),
    'WORKSPACE COMMAND_ID',
    [2, 2],
  ),
  {
    name: 'commands',
    takes: 'WORKSPACE',
    does: 'list the commands of a workspace, the newest first, with the ids that logs, signal and cancel take',
    flags: STATE_FLAG,
    words: [1, 1],
    run: listCommands,
  },
  {
    name: 'terminals',
    takes: 'WORKSPACE',
    does: 'list the terminals of a workspace, the newest first, with the ids that shell --id takes',
    flags: STATE_FLAG,
    words: [1, 1],
    run: listTerminals,
  },
  {
    name: 'ps',
    takes: 'WORKSPACE',
    does: 'list the processes of a workspace',
    words: [1, 1],
    async run({ workspace, print }, [name = '']) {
      print((await (await workspace(name)).processes.list()).processes, PROCESS_COLUMNS)
      return 0
    },
  },
  lifecycle('suspend', 'keep memory and processes, and release the machine', async ({ workspace }, [name = '']) =>
    (await workspace(name)).suspend(),
  ),
  lifecycle('resume', 'let it go on where it stood', async ({ workspace }, [name = '']) => (await workspace(name)).resume()),
  lifecycle(
    'snapshot',
    'keep a checkpoint of it',
    async ({ workspace }, [name = '', label]) => (await workspace(name)).snapshot(label === undefined ? {} : { label }),
    'WORKSPACE [LABEL]',
    [1, 2],
  ),
  lifecycle(
    'checkpoints',
    'list its checkpoints',
    async ({ workspace, print }, [name = '']) =>
      void print(await (await workspace(name)).checkpoints().all(), ['id', 'kind', 'label', 'created_at']),
  ),
  {
    name: 'restore',
    takes: 'WORKSPACE CHECKPOINT_ID',
    does: 'bring a checkpoint back',
    flags: { 'no-memory': { type: 'boolean', says: 'start from its disk alone, for a guest that hangs' } },
    words: [2, 2],
    async run({ workspace, flags, print }, [name = '', id = '']) {
      print(await (await workspace(name)).restore(id, flags['no-memory'] === true ? { memory: false } : {}))
      return 0
    },
  },
  {
    name: 'fork',
    takes: 'WORKSPACE NEW_KEY',
    does: 'copy it, alive, under another key',
    flags: SIZE_FLAGS,
    words: [2, 2],
    async run({ workspace, flags, print }, [name = '', key = '']) {
      print((await (await workspace(name)).fork(key, sizesOf(flags))).view)
      return 0
    },
  },
  {
    name: 'adopt',
    takes: 'WORKSPACE FORK',
    does: 'go on from the memory and disk of a fork; what was there is kept for 7 days',
    flags: { 'delete-fork': { type: 'boolean', says: 'delete the fork afterwards; its key can be used again' } },
    words: [2, 2],
    async run({ workspace, flags, print }, [name = '', fork = '']) {
      const delete_fork = flags['delete-fork'] === true
      print(await (await workspace(name)).adopt(await workspace(fork), { delete_fork }))
      return 0
    },
  },
  lifecycle('reset', 'wipe every change since the template', async ({ workspace }, [name = '']) => (await workspace(name)).reset()),
  lifecycle('delete', 'delete it; its key is never used again', async ({ workspace }, [name = '']) => (await workspace(name)).delete()),
  ...files(),
]

function files(): CliCommand[] {
  const at = (text: string) => {
    const [name = '', ...path] = text.split(':')
    if (path.length === 0) throw usageError(`${text} is no place`, 'berth files list WORKSPACE:/home/user')
    return { name, path: path.join(':') }
  }
  const call = (
    name: string,
    does: string,
    run: (context: Context, place: { name: string; path: string }, words: readonly string[]) => Promise<unknown>,
    more = '',
    words: readonly [number, number] = [1, 1],
  ): CliCommand => ({
    name: `files ${name}`,
    takes: `WORKSPACE:PATH${more}`,
    does,
    words,
    async run(context, [place = '', ...rest]) {
      await run(context, at(place), rest)
      return 0
    },
  })
  return [
    call('list', 'list a folder', async ({ workspace, print }, { name, path }) =>
      print((await (await workspace(name)).files.list(path)).entries, FILE_COLUMNS),
    ),
    call('cat', 'print a file', async ({ workspace }, { name, path }) => {
      for await (const bytes of (await workspace(name)).files.stream(path)) process.stdout.write(bytes)
    }),
    call('remove', 'remove a file, or a folder with all below it', async ({ workspace }, { name, path }) =>
      (await workspace(name)).files.remove(path, { recursive: true }),
    ),
    call(
      'search',
      'find lines',
      async ({ workspace, print }, { name, path }, [pattern = '']) =>
        print((await (await workspace(name)).files.search({ path, pattern })).matches, ['path', 'line', 'text']),
      ' PATTERN',
      [2, 2],
    ),
  ]
}
