// Runs stock OpenSSH. Each connection starts one small server in the workspace as the login user, on stdin and stdout of a command. The
// template needs no ssh server.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import type { Command } from '../../sdk/typescript/src/main.ts'
import { CliError, type Context, type Run } from './command.ts'
import { exitCodeOf, writeFully } from './ending.ts'
import { configFolder, writeWhole } from './profile.ts'
import { hostKeyOf, hostSecret } from './ssh-host-key.ts'
import { bringServer } from './ssh-server.ts'

const SUFFIX = '.berth'
/** One request in flight and one waiting; above this limit stdin pauses. */
const WAITING_BYTES_MAX = 2 << 20
const USER = 'user'

export const ssh: Run = async (context, [name = '']) => {
  const { flags, rest, profile } = context
  const ws = await context.workspace(name)
  const files = filesHere()
  const config = path.join(files.folder, `config.${profile.replaceAll(/[^\w-]/g, '_')}`)
  writeWhole(config, `${configOf(files, profileOf(flags))}\n`)
  const user = userOf(flags)
  const child = spawn('ssh', ['-F', config, '-l', user, `${ws.id}${SUFFIX}`, ...rest], { stdio: 'inherit', env: envOf(flags) })
  // The terminal sends these signals to ssh, too. Only ssh must handle them.
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.on(signal, () => undefined)
  const [code, signal] = (await once(child, 'exit').catch((cause: unknown) => {
    throw new CliError(`ssh could not be run: ${(cause as Error).message}`, { next: `berth shell ${name}` })
  })) as [number | null, NodeJS.Signals | null]
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal])
}

export const sshConfig: Run = ({ print, flags, json }) => {
  const files = filesHere()
  const config = configOf(files, profileOf(flags))
  print(json ? { config, ...files } : config)
  return 0
}

export const sshProxy: Run = async ({ workspace, flags }, [host = '']) => {
  const files = filesHere()
  const ws = await workspace(host.endsWith(SUFFIX) ? host.slice(0, -SUFFIX.length) : host)
  const user = userOf(flags)
  const { seed, line } = hostKeyOf(hostSecret(files.secret), ws.id)
  // ssh reads known_hosts when the server's first bytes arrive, so the key is written before.
  writeKnownHost(files, host, line)
  const server = await bringServer(ws, user)
  const command = await ws.start([server], { user, stdin_open: true })
  const given = command.write(seed)
  given.catch(() => undefined) // fails if the command has ended; the output then reports the result
  return relay(command)
}

interface Files {
  folder: string
  secret: string
  known: string
}

function filesHere(): Files {
  const folder = path.join(configFolder(), 'ssh')
  const files = { folder, secret: path.join(folder, 'host-secret'), known: path.join(folder, 'known') }
  mkdirSync(files.known, { recursive: true, mode: 0o700 })
  return files
}

function userOf(flags: Context['flags']): string {
  return typeof flags['user'] === 'string' ? flags['user'] : USER
}

function profileOf(flags: Context['flags']): string | undefined {
  return typeof flags['profile'] === 'string' ? flags['profile'] : undefined
}

/** ssh starts the ProxyCommand without these flags, so the environment contains them. */
function envOf(flags: Context['flags']): NodeJS.ProcessEnv {
  const meant = { BERTH_URL: flags['url'], BERTH_PROJECT: flags['project'], BERTH_ORGANIZATION: flags['organization'] }
  const given = Object.entries(meant).filter((each): each is [string, string] => typeof each[1] === 'string')
  return { ...process.env, ...Object.fromEntries(given) }
}

function writeKnownHost({ known }: Files, host: string, host_key: string): void {
  if (/[/\s]/.test(host)) throw new CliError(`ssh takes no ${host} as a name`, { next: 'ssh WORKSPACE_ID.berth' })
  writeWhole(path.join(known, host), `berth ${host_key}\n`)
}

/** Transfers every byte exactly once, across suspends and lost connections. */
async function relay(command: Command): Promise<number> {
  const leave = () => void command.end().catch(() => undefined) // the command may have ended
  for (const signal of ['SIGHUP', 'SIGTERM', 'SIGINT'] as const) process.once(signal, leave)
  const typed = (async () => {
    let waiting_bytes = 0
    for await (const bytes of process.stdin as AsyncIterable<Buffer>) {
      waiting_bytes += bytes.length
      const taken = command.write(bytes).then(() => void (waiting_bytes -= bytes.length))
      taken.catch(() => undefined) // the end of the output reports a failure
      if (waiting_bytes > WAITING_BYTES_MAX) await taken
    }
    await command.end()
  })()
  typed.catch(() => undefined) // a command that has ended accepts no input; the output reports the result
  for await (const { stream, bytes } of command.output()) await writeFully(stream === 'stdout' ? process.stdout : process.stderr, bytes)
  return exitCodeOf(command.ending)
}

function configOf({ known }: Files, profile: string | undefined): string {
  const self = process.argv[1] ?? 'berth'
  const program = self.endsWith('.ts') ? [process.execPath, '--disable-warning=ExperimentalWarning', self] : [process.execPath, self]
  const words = [...program, 'ssh-proxy', ...(profile === undefined ? [] : ['--profile', profile])].map(quoted)
  return [
    `Host *${SUFFIX}`,
    `  User ${USER}`,
    `  ProxyCommand ${words.join(' ')} --user %r %n`,
    '  IdentitiesOnly yes',
    '  ForwardAgent no',
    '  HostKeyAlias berth',
    `  UserKnownHostsFile ${fileName(`${known}/%n`)}`,
    '  StrictHostKeyChecking yes',
    '  ServerAliveInterval 30',
  ].join('\n')
}

function quoted(word: string): string {
  const safe = word.replaceAll('%', '%%')
  return /^[\w./=%-]+$/.test(safe) ? safe : `'${safe.replaceAll("'", String.raw`'\''`)}'`
}

function fileName(file: string): string {
  return /[\s"]/.test(file) ? `"${file}"` : file
}
