import { existsSync, readFileSync, realpathSync } from 'node:fs'
import path from 'node:path'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError } from './command.ts'

/** Maps the output of `uname -m` to Go's names. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x86_64: 'amd64', aarch64: 'arm64' }
const MISSING = 41
const PIECE_BYTES = 1 << 20

/** A restart empties /tmp. Another user may have made the folder, so the commands check its owner. */
const FOLDER = '/tmp/.berth-ssh-$(id -u)'
const LOOK = `uname -m; [ -O "${FOLDER}" ] && [ -x "${FOLDER}/$1" ] && [ -O "${FOLDER}/$1" ] || exit ${MISSING}`
const TAKE = `set -e
umask 077
mkdir -p "${FOLDER}"
[ -O "${FOLDER}" ]
gzip -d > "${FOLDER}/.$$"
chmod 700 "${FOLDER}/.$$"
mv "${FOLDER}/.$$" "${FOLDER}/$1"`

export async function bringServer(ws: Workspace, user: string): Promise<string> {
  const servers = packedServers()
  const { name } = servers
  const { exitCode, stdout, stderr, error } = await ws.exec(['sh', '-c', `id -u; ${LOOK}`, 'sh', name], { user })
  const [uid = '', machine = ''] = stdout.split('\n')
  const there = `/tmp/.berth-ssh-${uid}/${name}`
  if (exitCode === 0) return there
  if (exitCode !== MISSING) throw new CliError(`The workspace could not be made ready for ssh: ${error ?? stderr.trim()}`)
  const packed = packedFor(servers, machine)
  const command = await ws.start(['sh', '-c', TAKE, 'sh', name], { user, stdin_open: true })
  for (let at = 0; at < packed.length; at += PIECE_BYTES) await command.write(packed.subarray(at, at + PIECE_BYTES))
  await command.end()
  const result = await command.result()
  if (!result.ok) throw new CliError(`The workspace did not take the ssh server: ${result.stderr.trim()}`)
  return there
}

interface PackedServers {
  folder: string
  /** The name contains the version, so an upload never replaces a running server. */
  name: string
}

function packedServers(): PackedServers {
  const self = path.dirname(realpathSync(process.argv[1] ?? ''))
  for (const folder of [self, path.join(self, '../dist')]) {
    const file = path.join(folder, 'guestssh.name')
    if (existsSync(file)) return { folder, name: readFileSync(file, 'utf8').trim() }
  }
  throw new CliError('This command line came without its ssh server', { next: 'npm run build:clients, in the clone' })
}

function packedFor({ folder }: PackedServers, machine: string): Buffer {
  const architecture = ARCHITECTURES[machine]
  const file = path.join(folder, `guestssh-${architecture ?? ''}.gz`)
  if (architecture === undefined || !existsSync(file)) throw new CliError(`There is no ssh server for a workspace on ${machine}`)
  return readFileSync(file)
}
