import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { runBerth } from '../cli/served.ts'
import { builtCli } from '../support/built-clients.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

const MAIN = await builtCli()
const BERTH = `'${process.execPath}' --disable-warning=ExperimentalWarning '${MAIN}'`
const TIMEOUT = { timeout: patience(240_000) }
const KEY = 'cli-tools'

let service: SharedService
let folder: string
before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'berth-cli-'))
  service = await sharedService()
  assert.equal((await berth('open', KEY)).code, 0)
})
after(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

const env = () => ({ BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key, BERTH_CONFIG_DIR: folder })
const berth = (...words: string[]) => runBerth(words, { env: env() })

class Shown {
  text = ''
  readonly child: ChildProcessWithoutNullStreams
  readonly ended: Promise<number | null>

  constructor(program: string, args: readonly string[]) {
    this.child = spawn(program, args, { env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', ...env() } })
    for (const stream of [this.child.stdout, this.child.stderr]) stream.on('data', (bytes: Buffer) => void (this.text += bytes.toString()))
    this.ended = once(this.child, 'close').then(([code]) => code as number | null)
  }

  async type(text: string, shows: RegExp): Promise<RegExpExecArray> {
    this.text = ''
    this.child.stdin.write(text)
    return this.sees(shows)
  }

  async sees(what: RegExp): Promise<RegExpExecArray> {
    const signal = AbortSignal.timeout(120_000)
    for (;;) {
      const found = what.exec(this.text)
      if (found) return found
      await once(this.child.stdout, 'data', { signal }).catch((cause: unknown) => {
        throw new Error(`It never showed ${what}: ${JSON.stringify(this.text)}`, { cause })
      })
    }
  }
}

const inTerminal = (words: string, cols = 91) => new Shown('script', ['-qec', `stty cols ${cols} rows 33; ${BERTH} ${words}`, '/dev/null'])

test('exec on a terminal gives the command a terminal of the same size, and returns its exit code', TIMEOUT, async () => {
  const shown = inTerminal(`exec ${KEY} -- sh -c 'stty size; read line; echo "got $line"; exit 7'`)
  await shown.sees(/33 91/)
  await shown.type('a word\r', /got a word/)
  assert.equal(await shown.ended, 7)
})

test('a detached shell keeps running, and a terminal of another size reattaches to it with its output', TIMEOUT, async () => {
  const first = inTerminal(`shell ${KEY}`)
  await first.type('echo is-$((40 + 2))\r', /is-42/)
  const [, id = ''] = await first.type('\u001d', /berth shell cli-tools --id (\S+)/)
  assert.equal(await first.ended, 0)
  const second = inTerminal(`shell ${KEY} --id ${id}`, 70)
  await second.sees(/is-42/)
  await second.type('echo $TERM; stty size\r', /xterm\r+\n33 70/)
  await second.type('exit 5\r', /exit/)
  assert.equal(await second.ended, 5)
})

test('terminal control bytes arrive unchanged', TIMEOUT, async () => {
  const steering = String.raw`\033]0;title\007\033[2J\033P$q"p\033\\\000end`
  const { stdout, code } = await berth('exec', KEY, '--tty', '--', 'printf', steering)
  assert.deepEqual([code, stdout], [0, '\u001b]0;title\u0007\u001b[2J\u001bP$q"p\u001b\\\u0000end'])
})

test('a port is forwarded until interrupted, linked for a browser, and closed', TIMEOUT, async () => {
  const serve = 'echo from the port > /tmp/page; cd /tmp; exec python3 -m http.server 8123'
  assert.equal((await berth('exec', KEY, '--detach', '--', 'sh', '-c', serve)).code, 0)
  const shown = new Shown('sh', ['-c', `exec ${BERTH} port ${KEY} 8123`])
  const [, url = ''] = await shown.sees(/^(http:\/\/127\.0\.0\.1:\d+)$/m)
  const page = await answering(`${url}/page`)
  assert.equal(page, 'from the port\n')
  assert.equal((await fetch(`${url}/missing`)).status, 404)
  const link = await berth('port', KEY, '8123', '--link')
  assert.match(link.stdout, /^http\S+\n$/)
  shown.child.kill('SIGTERM')
  assert.equal(await shown.ended, 0)
  assert.equal((await berth('port', KEY, '8123', '--close')).code, 0)
})

test('a folder copied to a workspace and back is unchanged: odd names, modes, links, empty folders and large files', TIMEOUT, async () => {
  const from = path.join(folder, 'from')
  mkdirSync(path.join(from, 'empty'), { recursive: true })
  const odd = ["it's", 'two\nlines', '-rf', ' space ', 'ü 漢字', '\u001b[31m', '$(id)', 'a"b\\c']
  for (const name of odd) writeFileSync(path.join(from, name), name)
  writeFileSync(path.join(from, 'run'), '#!/bin/sh\n', { mode: 0o755 })
  symlinkSync('run', path.join(from, 'link'))
  const large = Buffer.alloc(20 << 20, 'berth')
  writeFileSync(path.join(from, 'large'), large)
  const up = await berth('cp', from, `${KEY}:/home/user/copied`)
  assert.equal(up.code, 0, up.stderr)
  assert.match(
    (await berth('exec', KEY, '--', 'sh', '-c', 'cd /home/user/copied && ./run && readlink link && ls -A | wc -w')).stdout,
    /^run\n/,
  )
  const into = await berth('cp', from, `${KEY}:`)
  assert.equal(into.code, 0, into.stderr)
  assert.equal((await berth('exec', KEY, 'cat from/run')).stdout, '#!/bin/sh\n')
  const back = path.join(folder, 'back')
  const down = await berth('cp', `${KEY}:/home/user/copied`, back)
  assert.equal(down.code, 0, down.stderr)
  for (const name of odd) assert.equal(readFileSync(path.join(back, name), 'utf8'), name)
  assert.ok(readFileSync(path.join(back, 'large')).equals(large))
  assert.equal(statSync(path.join(back, 'run')).mode & 0o777, 0o755)
  assert.equal(readlinkSync(path.join(back, 'link')), 'run')
  assert.ok(statSync(path.join(back, 'empty')).isDirectory())
})

async function answering(url: string): Promise<string> {
  const signal = AbortSignal.timeout(120_000)
  for (;;) {
    const response = await fetch(url, { signal })
    const text = await response.text()
    if (response.ok) return text
  }
}
