import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { Berth, type Workspace } from '../../sdk/typescript/src/main.ts'
import { runBerth } from '../cli/served.ts'
import { debianPackages, unpack } from '../support/debian-packages.ts'
import { builtCli } from '../support/built-clients.ts'
import { buildGuestSsh } from '../../tools/sdk/bundle.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

const run = promisify(execFile)
const PACKAGES = ['rsync', 'libpopt0', 'libxxhash0']
const TIMEOUT = { timeout: patience(300_000) }

const folder = mkdtempSync(path.join(tmpdir(), 'berth-ssh-'))
const missing = await debianPackages(path.join(folder, 'packages'), PACKAGES)
const RSYNC = { ...TIMEOUT, skip: missing === undefined ? false : `no Debian packages: ${missing}` }

let service: SharedService
let ws: Workspace
const env = () => ({ BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key, BERTH_CONFIG_DIR: folder })
const local = (name: string) => path.join(folder, name)
const there = (program: string, ...args: string[]) =>
  run(program, args, { cwd: folder, env: { PATH: process.env['PATH'] ?? '', ...env() }, timeout: patience(120_000) })
const ROOT = path.resolve(import.meta.dirname, '../..')
const ssh = (...args: string[]) => there('ssh', '-F', local('config'), ...args)

before(async () => {
  service = await sharedService()
  ws = await new Berth({ url: service.base_url, apiKey: service.api_key }).open('ssh', { template: 'base' })
  buildGuestSsh(path.dirname(await builtCli()))
  const { stdout } = await runBerth(['ssh-config'], { env: env() })
  writeFileSync(local('config'), stdout)
})
after(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

test('ssh runs commands in a workspace without sshd, and passes input, output and exit codes', TIMEOUT, async () => {
  const { stdout } = await ssh('ssh.berth', 'echo "$USER in $PWD"; id -u')
  assert.equal(stdout, 'user in /home/user\n1000\n')
  assert.equal((await ssh('root@ssh.berth', 'id -u')).stdout, '0\n')
  const bytes = randomBytes(3 << 20)
  writeFileSync(local('bytes'), bytes)
  const sum = createHash('sha256').update(bytes).digest('hex')
  const piped = await there('sh', '-c', "ssh -F config ssh.berth 'tee copy | sha256sum' < bytes")
  assert.equal(piped.stdout.slice(0, 64), sum)
  const failed = await ssh('ssh.berth', 'exit 9').catch((error: unknown) => error as { code: number })
  assert.equal('code' in failed ? failed.code : 0, 9)
})

test('berth ssh runs the local ssh, and can connect as another user of the workspace', TIMEOUT, async () => {
  const ran = await runBerth(['ssh', 'ssh', 'echo "$0 $USER"; exit 4'], { env: env(), stdin: '' })
  assert.deepEqual([ran.code, ran.stdout], [4, '/bin/bash user\n'])
  assert.equal((await runBerth(['ssh', '--user', 'root', 'ssh', 'id', '-un'], { env: env(), stdin: '' })).stdout, 'root\n')
  const stranger = await runBerth(['ssh', '--user', 'nobody-there', 'ssh', 'true'], { env: env(), stdin: '' })
  assert.deepEqual([stranger.code, /nobody-there/.test(stranger.stderr)], [255, true])
})

test('the ssh agent of this computer is never forwarded, even on request', TIMEOUT, async () => {
  const { stdout } = await ssh('-A', '-o', 'ForwardAgent=yes', 'ssh.berth', 'echo "agent: $SSH_AUTH_SOCK"')
  assert.equal(stdout, 'agent: \n')
})

test('a terminal over ssh has its size and survives a suspend', TIMEOUT, async () => {
  const command = 'stty cols 91 rows 33; ssh -tt -F config ssh.berth "stty size; echo begun; sleep 3; echo ended"'
  const terminal = there('script', '-qec', command, '/dev/null')
  await ws.suspend()
  await ws.resume()
  assert.match((await terminal).stdout, /33 91\r\nbegun\r\nended/)
})

test('sftp lists, reads, writes, renames and removes', TIMEOUT, async () => {
  writeFileSync(local('batch'), 'mkdir s\nput bytes s/a\nrename s/a s/b\nls -l s\nget s/b back-by-sftp\nrm s/b\nrmdir s\n')
  const { stdout } = await there('sftp', '-F', 'config', '-b', 'batch', 'ssh.berth')
  assert.match(stdout, / 3145728 .* b\n/)
  assert.ok(readFileSync(local('back-by-sftp')).equals(readFileSync(local('bytes'))))
})

test('scp and rsync copy folders in both directions, and rsync deletes removed files', RSYNC, async () => {
  mkdirSync(path.join(local('from'), 'below'), { recursive: true })
  const odd = "it's two\nlines"
  writeFileSync(path.join(local('from'), 'below', odd), 'content', { mode: 0o640 })
  writeFileSync(path.join(local('from'), 'gone'), 'gone')
  await there('scp', '-F', 'config', '-pr', 'from', 'ssh.berth:by-scp')
  await there('scp', '-F', 'config', '-pr', 'ssh.berth:by-scp', 'back')
  assert.equal(readFileSync(path.join(local('back'), 'below', odd), 'utf8'), 'content')
  assert.equal(statSync(path.join(local('back'), 'below', odd)).mode & 0o777, 0o640)
  const rsync = async () => there(await ownRsync('ssh -F config'), '-a', '--delete', 'from/', 'ssh.berth:by-rsync/')
  await rsync()
  rmSync(path.join(local('from'), 'gone'))
  await rsync()
  const { entries } = await ws.files.list('/home/user/by-rsync')
  assert.deepEqual(
    entries.map(({ name }) => name),
    ['below'],
  )
})

test('-L forwards a port and a socket of the workspace over a suspend, and -R a port and a socket of this computer', TIMEOUT, async () => {
  const echo = createServer((socket) => void socket.on('error', () => undefined).pipe(socket)).listen(0, '127.0.0.1')
  await once(echo, 'listening')
  await ws.files.write('/home/user/echo.py', ECHO)
  await ws.start(['python3', '/home/user/echo.py'])
  const [port, from_there] = [await freePort(), 18_124]
  await using _forwards = await sshStays([
    ...['-L', `127.0.0.1:${port}:127.0.0.1:18123`, '-L', `${local('near.sock')}:/home/user/echo.sock`],
    ...['-R', `127.0.0.1:${from_there}:127.0.0.1:${portOf(echo)}`, '-R', `/home/user/back.sock:127.0.0.1:${portOf(echo)}`],
  ])
  const [over_port, over_socket] = [connect(port, '127.0.0.1'), connect(local('near.sock'))]
  for (const each of [over_port, over_socket]) assert.equal(await echoed(each, 'before'), 'before')
  await ws.suspend()
  await ws.resume()
  for (const each of [over_port, over_socket]) {
    assert.equal(await echoed(each, 'after'), 'after')
    each.destroy()
  }
  for (const place of [`("127.0.0.1", ${from_there})`, '"/home/user/back.sock"']) {
    const { stdout, stderr } = await ws.exec(['python3', '-c', ASK, place])
    assert.equal(stdout, 'from there\n', stderr)
  }
  echo.close()
})

test('an editor copies its server, starts it by a script on standard input, and reaches it through -D', TIMEOUT, async () => {
  mkdirSync(local('server'))
  writeFileSync(path.join(local('server'), 'serve.py'), SERVE)
  const large = randomBytes(8 << 20)
  writeFileSync(path.join(local('server'), 'large'), large)
  await there('sh', '-c', "tar -c server | ssh -T -F config ssh.berth 'mkdir -p .editor && tar -x -C .editor'")
  const port = await freePort()
  // The script's shell ends; its server process and the connection continue.
  const script =
    "cd .editor/server && (setsid nohup python3 serve.py > said 2>&1 < /dev/null &)\nuntil grep -q '==' said; do sleep 0.1; done; cat said; exec cat\n"
  await using editor = await sshStays(['-T', '-D', `127.0.0.1:${port}`], 'bash', script)
  const [, listens_on = ''] = /listeningOn==(\d+)==/.exec(editor.said) ?? []
  const ask = (name: string) =>
    run('curl', ['-sS', '--proxy', `socks5h://127.0.0.1:${port}`, `http://localhost:${listens_on}/${name}`], CURL)
  assert.ok((await ask('large')).stdout.equals(large))
  assert.ok((await ask('said')).stdout.toString().startsWith(editor.said))
})

test('the commands of docs/guides/ssh.md work on a computer that has the programs', RSYNC, async () => {
  const guide = await new Berth({ url: service.base_url, apiKey: service.api_key }).open('guide', { template: 'base' })
  const text = readFileSync(path.join(ROOT, 'docs/guides/ssh.md'), 'utf8')
  const [direct = '', config = '', use = ''] = [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block)
  mkdirSync(local('home/.ssh'), { recursive: true })
  mkdirSync(local('home/project'))
  writeFileSync(local('home/project/file'), 'content')
  // OpenSSH reads the home from the list of users, not from $HOME. VS Code begins with a command over ssh.
  const here = 'env -u LD_LIBRARY_PATH'
  program('ssh', `exec ${here} /usr/bin/ssh -F ~/.ssh/config "$@"`)
  program('scp', `exec /usr/bin/scp -F ~/.ssh/config "$@"`)
  program('berth', `exec '${process.execPath}' --disable-warning=ExperimentalWarning '${await builtCli()}' "$@"`)
  program('rsync', `exec '${await ownRsync(local('bin/ssh'))}' "$@"`)
  program('code', 'ssh "${2#ssh-remote+}" "ls $3" | sed "s/^/the editor sees /"')
  const PATH = `${local('bin')}:${process.env['PATH'] ?? ''}`
  const script = `set -euxo pipefail\ncd\n${direct}\n${config}\n${use}`
  const ran = run('bash', ['-c', script], { env: { PATH, HOME: local('home'), ...env() }, timeout: patience(120_000) })
  ran.child.stdin?.end()
  assert.match((await ran).stdout, /uid=0\(root\).*the editor sees file\n$/s)
  assert.equal(await guide.files.readText('/home/user/project/file'), 'content')
  await guide.delete()
})

test('the keys are readable only by their owner and never shown', TIMEOUT, async () => {
  assert.deepEqual(
    [statSync(path.join(folder, 'ssh/host-secret')).mode & 0o777, statSync(path.join(folder, 'ssh/host-secret')).size],
    [0o600, 32],
  )
  assert.equal(statSync(path.join(folder, 'ssh')).mode & 0o777, 0o700)
  assert.equal(readFileSync(local('config'), 'utf8').includes(service.api_key), false)
})

const ECHO = `
import os, socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
import threading
servers = [socketserver.ThreadingTCPServer(("127.0.0.1", 18123), Echo), socketserver.ThreadingUnixStreamServer("/home/user/echo.sock", Echo)]
for server in servers[1:]:
    threading.Thread(target=server.serve_forever).start()
servers[0].serve_forever()
`
const ASK = `
import socket, sys
place = eval(sys.argv[1])
with socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET) as asked:
    asked.connect(place)
    asked.sendall(b"from there")
    asked.shutdown(socket.SHUT_WR)
    print(asked.recv(100).decode())
`
const SERVE = `
import http.server
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(f"listeningOn=={server.server_port}==", flush=True)
server.serve_forever()
`
const CURL = { encoding: 'buffer', maxBuffer: 64 << 20, timeout: patience(120_000) } as const

/** @returns once the remote side has sent output: its forwards exist by that time */
async function sshStays(options: readonly string[], command = 'echo ready; cat', input = ''): Promise<AsyncDisposable & { said: string }> {
  const words = ['-F', local('config'), '-o', 'ExitOnForwardFailure=yes', ...options, 'ssh.berth', command]
  const child = spawn('ssh', words, { cwd: folder, env: { PATH: process.env['PATH'] ?? '', ...env() }, stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  child.stdin.write(input)
  const [first] = (await once(child.stdout, 'data', { signal: AbortSignal.timeout(120_000) })) as [Buffer]
  return {
    said: first.toString(),
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await ended
    },
  }
}

async function echoed(socket: Socket, text: string): Promise<string> {
  socket.write(text)
  const [data] = (await once(socket, 'data', { signal: AbortSignal.timeout(120_000) })) as [Buffer]
  return data.toString()
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  server.close()
  await once(server, 'close')
  return port
}

function program(name: string, script: string): string {
  const at = local(`bin/${name}`)
  mkdirSync(local('bin'), { recursive: true })
  writeFileSync(at, `#!/bin/sh\n${script}\n`)
  chmodSync(at, 0o755)
  return at
}

async function ownRsync(ssh: string): Promise<string> {
  await unpack(local('packages'), local('unpacked'))
  const libraries = readdirSync(local('unpacked/usr/lib')).map((each) => local(`unpacked/usr/lib/${each}`))
  const rsync = `'${local('unpacked/usr/bin/rsync')}' -e 'env -u LD_LIBRARY_PATH ${ssh}' "$@"`
  return program('rsync-with-libraries', `LD_LIBRARY_PATH='${libraries.join(':')}' exec ${rsync}`)
}
