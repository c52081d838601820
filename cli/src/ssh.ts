// Stock OpenSSH, with scp, rsync and editors: each connection is one sshd in the workspace, on the standard input and output of a command.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Command, Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Run } from './command.ts'
import { exitCodeOf, written } from './ending.ts'
import { configFolder } from './profile.ts'

const SUFFIX = '.berth'
/** What the workspace has not taken: as much as one request carries while another is on its way. */
const WAITING_BYTES_MAX = 2 << 20
/** Root's alone to change, and gone when the machine starts anew. */
const THERE = '/run/berth-ssh'
const NO_SSHD = 41
const NO_SSHD_THERE = {
  exit_code: 1,
  next: "berth exec WORKSPACE -- sudo sh -c 'apt-get update && apt-get install -y openssh-server rsync'",
}

/** Makes what sshd needs. $1 is the key that may come in; it prints the key that the workspace shows. */
const PREPARE = `set -eu
command -v /usr/sbin/sshd > /dev/null || exit ${NO_SSHD}
umask 077
mkdir -p -m 755 ${THERE} /run/sshd
[ -f ${THERE}/host ] || { ssh-keygen -q -t ed25519 -N '' -C '' -f ${THERE}/made.$$; mv ${THERE}/made.$$.pub ${THERE}/host.pub; mv ${THERE}/made.$$ ${THERE}/host; }
printf '%s\\n' "$1" > ${THERE}/allowed.$$
chmod 644 ${THERE}/allowed.$$ # sshd reads it as who logs in
mv ${THERE}/allowed.$$ ${THERE}/allowed
cat ${THERE}/host.pub`

const SSHD = [
  '/usr/sbin/sshd', '-i', '-f', '/dev/null', '-h', `${THERE}/host`,
  ...['UsePAM=yes', 'PasswordAuthentication=no', 'KbdInteractiveAuthentication=no', 'PermitRootLogin=prohibit-password', 'PrintMotd=no', 'PrintLastLog=no',
    `AuthorizedKeysFile=${THERE}/allowed`, 'StrictModes=no', 'PidFile=none', 'Subsystem=sftp internal-sftp', 'AcceptEnv=LANG LC_*',
    'ClientAliveInterval=30', 'ClientAliveCountMax=4', 'LogLevel=ERROR'].flatMap((option) => ['-o', option]),
] // prettier-ignore

export const sshConfig: Run = ({ print, flags, json }) => {
  const files = filesHere()
  makeKey(files)
  const config = configOf(files, typeof flags['profile'] === 'string' ? flags['profile'] : undefined)
  print(json ? { config, ...files } : config)
  return 0
}

/** What ssh runs as its ProxyCommand. */
export const sshProxy: Run = async ({ workspace }, [host = '']) => {
  const files = filesHere()
  const ws = await workspace(host.endsWith(SUFFIX) ? host.slice(0, -SUFFIX.length) : host)
  const host_key = await prepare(ws, makeKey(files))
  // ssh reads it when the first bytes of the other side have come.
  know(files, host, host_key)
  return carry(await ws.start(SSHD, { user: 'root', stdin_open: true }))
}

interface Files {
  folder: string
  /** That this computer shows. */
  key: string
  known: string
}

function filesHere(): Files {
  const folder = path.join(configFolder(), 'ssh')
  return { folder, key: path.join(folder, 'id_ed25519'), known: path.join(folder, 'known') }
}

/** A key for workspaces alone, readable by its owner. @returns its public half */
function makeKey({ folder, key, known }: Files): string {
  for (const each of [folder, known]) mkdirSync(each, { recursive: true, mode: 0o700 })
  if (!existsSync(key)) {
    const beside = `${key}.${process.pid}`
    try {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'berth', '-f', beside], { stdio: ['ignore', 'ignore', 'pipe'] })
    } catch (cause) {
      throw new CliError(`ssh-keygen could not make a key: ${(cause as Error).message.split('\n')[0] ?? ''}`)
    }
    // The private half comes last: where it is, both are.
    renameSync(`${beside}.pub`, `${key}.pub`)
    renameSync(beside, key)
  }
  return readFileSync(`${key}.pub`, 'utf8').trim()
}

async function prepare(ws: Workspace, public_key: string): Promise<string> {
  const { exitCode, stdout, stderr, ok } = await ws.exec(['sh', '-c', PREPARE, 'sh', public_key], { user: 'root' })
  if (exitCode === NO_SSHD) throw new CliError('The workspace has no sshd', NO_SSHD_THERE)
  if (!ok) throw new CliError(`The workspace could not be made ready for ssh: ${stderr.trim()}`)
  return stdout.trim()
}

function know({ known }: Files, host: string, host_key: string): void {
  if (/[/\s]/.test(host)) throw new CliError(`ssh takes no ${host} as a name`, { next: 'ssh WORKSPACE_ID.berth' })
  const beside = path.join(known, `.${process.pid}`)
  writeFileSync(beside, `berth ${host_key}\n`, { mode: 0o600 })
  renameSync(beside, path.join(known, host))
}

/** Every byte once, over suspends and dropped connections. */
async function carry(command: Command): Promise<number> {
  const leave = () => void command.end().catch(() => undefined) // it may have ended
  for (const signal of ['SIGHUP', 'SIGTERM', 'SIGINT'] as const) process.once(signal, leave)
  const typed = (async () => {
    let waiting_bytes = 0
    for await (const bytes of process.stdin as AsyncIterable<Buffer>) {
      waiting_bytes += bytes.length
      const taken = command.write(bytes).then(() => void (waiting_bytes -= bytes.length))
      taken.catch(() => undefined) // so is the end
      if (waiting_bytes > WAITING_BYTES_MAX) await taken
    }
    await command.end()
  })()
  typed.catch(() => undefined) // whoever has ended takes nothing more; the output tells how
  for await (const { stream, bytes } of command.output()) await written(stream === 'stdout' ? process.stdout : process.stderr, bytes)
  return exitCodeOf(command.ending)
}

function configOf({ key, known }: Files, profile: string | undefined): string {
  const self = process.argv[1] ?? 'berth'
  const program = self.endsWith('.ts') ? [process.execPath, '--disable-warning=ExperimentalWarning', self] : [process.execPath, self]
  const words = [...program, 'ssh-proxy', ...(profile === undefined ? [] : ['--profile', profile])].map(quoted)
  return [
    `Host *${SUFFIX}`,
    '  User user',
    `  ProxyCommand ${words.join(' ')} %n`,
    `  IdentityFile ${fileName(key)}`,
    '  IdentitiesOnly yes',
    '  HostKeyAlias berth',
    `  UserKnownHostsFile ${fileName(`${known}/%n`)}`,
    '  StrictHostKeyChecking yes',
    '  ServerAliveInterval 30',
  ].join('\n')
}

/** A shell reads it; a percent sign is ssh's. */
function quoted(word: string): string {
  const safe = word.replaceAll('%', '%%')
  return /^[\w./=%-]+$/.test(safe) ? safe : `'${safe.replaceAll("'", String.raw`'\''`)}'`
}

function fileName(file: string): string {
  return /[\s"]/.test(file) ? `"${file}"` : file
}
