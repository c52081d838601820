import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { type Served, serveDouble } from './served.ts'
import { patience } from '../support/patience.ts'

let cli: Served
before(async () => {
  cli = await serveDouble()
  cli.double.programs['shout'] = ({ stdin, stdout, stderr, argv }) => {
    stdout(new TextDecoder().decode(stdin).toUpperCase())
    stderr('done\n')
    return Number(argv[1] ?? 0)
  }
  cli.double.programs['waits'] = ({ stdout, signal }) => {
    stdout('begun\n')
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined)))
  }
  await cli.double.berth.open('w', { template: 'base' })
})
after(() => cli[Symbol.asyncDispose]())

test('open makes a workspace and shows it as a table, or as JSON', async () => {
  const { code, stdout } = await cli.berth(['open', 'new'])
  assert.equal(code, 0)
  assert.match(stdout, /^KEY +OBSERVED_STATE +MODE +SLUG +ID\nnew +running +processful +base +[0-9a-f-]{36}\n$/)
  assert.equal(JSON.parse((await cli.berth(['open', 'new', '--json'])).stdout).key, 'new')
})

test('exec passes standard input in, output and errors out, and the exit code on', async () => {
  const ran = await cli.berth(['exec', 'w', '--', 'shout', '7'], { stdin: 'quiet' })
  assert.deepEqual(ran, { code: 7, stdout: 'QUIET', stderr: 'done\n' })
})

test('standard input larger than one request is sent whole', async () => {
  const seen: string[][] = []
  cli.double.programs['sh'] = ({ argv, files, stdout }) => {
    seen.push([...argv])
    stdout(String(files.get(argv[3] ?? '')?.length))
    return 0
  }
  const { stdout } = await cli.berth(['exec', 'w', '--', 'wc', '-c'], { stdin: Buffer.alloc(3_000_000) })
  assert.deepEqual([stdout, seen[0]?.slice(4)], ['3000000', ['wc', '-c']])
})

test('a terminal echoes typed input, and passes the exit code on', async () => {
  cli.double.programs['asks'] = async ({ typed, stdout }) => {
    for await (const text of typed) {
      stdout(`got ${text}`)
      return 7
    }
    return 1
  }
  const { code, stdout } = await cli.berth(['exec', 'w', '--tty', '--', 'asks'], { stdin: 'a word' })
  assert.deepEqual([code, stdout], [7, 'got a word'])
})

test('a terminal has the type of the local terminal, or of --env', async () => {
  cli.double.programs['kind'] = ({ env, stdout }) => void stdout(env['TERM'] ?? 'none')
  const kind = async (TERM: string, ...flags: string[]) =>
    (await cli.berth(['exec', 'w', '--tty', ...flags, '--', 'kind'], { env: { TERM }, stdin: '' })).stdout
  assert.deepEqual(
    [await kind('tmux-256color'), await kind(''), await kind('screen', '--env', 'TERM=dumb')],
    ['tmux-256color', 'xterm-256color', 'dumb'],
  )
  const { stdout } = await cli.berth(['shell', 'w', 'kind'], { env: { TERM: 'tmux-256color' }, stdin: '' })
  assert.equal(stdout, 'tmux-256color')
})

test('a missing program is exit code 127, and a signal is passed on as 128 plus its number', async () => {
  assert.equal((await cli.berth(['exec', 'w', '--', 'nothing'])).code, 127)
  const { code, stdout } = await cli.berth(['exec', 'w', '--', 'waits'], { during: (pid) => process.kill(pid, 'SIGTERM') })
  assert.deepEqual([code, stdout], [128 + 15, 'begun\n'])
})

test('a detached command is followed by its id', async () => {
  const { id } = JSON.parse((await cli.berth(['exec', 'w', '--detach', '--json', '--', 'echo', 'later'])).stdout) as { id: string }
  assert.deepEqual(await cli.berth(['logs', 'w', id]), { code: 0, stdout: 'later\n', stderr: '' })
})

test('a command with an id is started once, read, signalled, and cancelled', async () => {
  const start = ['exec', 'w', '--id', 'named', '--detach', '--', 'waits']
  assert.deepEqual([(await cli.berth(start)).code, (await cli.berth(start)).code], [0, 0])
  assert.deepEqual(await cli.berth(['logs', 'w', 'named', '--no-follow']), { code: 0, stdout: 'begun\n', stderr: '' })
  assert.deepEqual(await cli.berth(['logs', 'w', 'named', '--no-follow', '--stdout-offset', '6']), { code: 0, stdout: '', stderr: '' })
  assert.equal((await cli.berth(['signal', 'w', 'named', 'SIGINT'])).code, 0)
  assert.equal((await cli.berth(['logs', 'w', 'named'])).code, 128 + 2)
  await cli.berth(['exec', 'w', '--id', 'other', '--detach', '--', 'waits'])
  assert.equal((await cli.berth(['cancel', 'w', 'other'])).code, 0)
  assert.equal((await cli.berth(['logs', 'w', 'other'])).code, 128 + 15)
})

test('reset runs as an operation of the workspace', async () => {
  await cli.double.berth.open('fresh', { template: 'base' })
  const { code, stdout } = await cli.berth(['reset', 'fresh', '--json'])
  assert.deepEqual([code, (JSON.parse(stdout) as { kind: string }).kind], [0, 'reset'])
})

test('files are copied both ways with odd names, and an existing file stays until its copy is complete', async () => {
  const folder = path.join(cli.folder, 'files')
  mkdirSync(folder)
  const odd = "a b'ü\n#.txt"
  writeFileSync(path.join(folder, odd), 'content')
  assert.equal((await cli.berth(['cp', path.join(folder, odd), `w:/home/user/${odd}`])).code, 0)
  assert.equal((await cli.berth(['files', 'cat', `w:/home/user/${odd}`])).stdout, 'content')
  assert.match((await cli.berth(['files', 'list', 'w:/home/user'])).stdout, /a b'ü\\x0a#\.txt/)
  assert.equal((await cli.berth(['cp', `w:/home/user/${odd}`, path.join(folder, 'back')])).code, 0)
  assert.equal(readFileSync(path.join(folder, 'back'), 'utf8'), 'content')
  const { code, stderr } = await cli.berth(['cp', 'w:/home/user/missing', path.join(folder, 'back')])
  assert.equal(code, 1)
  assert.match(stderr, /not_found \(path_not_found\)/)
  assert.equal(readFileSync(path.join(folder, 'back'), 'utf8'), 'content')
})

test('on a full disk cp reports it, leaves the old file, and no part of the new one', async () => {
  const { berth } = cli.double
  const ws = await berth.find('w')
  await ws?.files.write('/home/user/large', Buffer.alloc(3 << 20))
  const disk = path.join(cli.folder, 'disk')
  mkdirSync(disk)
  const { code, stdout, stderr } = await cli.berth(['cp', 'w:/home/user/large', path.join(disk, 'old')], {
    within: `mount -t tmpfs -o size=1m none '${disk}' && echo old > '${disk}/old' && "$@"; code=$?; ls -A '${disk}'; cat '${disk}/old'; exit $code`,
  })
  assert.deepEqual([code, stdout], [1, 'old\nold\n'])
  assert.match(stderr, /no space left on device/)
})

test('a workspace is suspended, resumed, saved, forked, continued from its fork, and deleted', async () => {
  await cli.berth(['open', 'life'])
  for (const words of [
    ['suspend', 'life'],
    ['resume', 'life'],
    ['snapshot', 'life', 'first'],
    ['fork', 'life', 'life-2'],
  ])
    assert.equal((await cli.berth(words)).code, 0, words.join(' '))
  assert.match((await cli.berth(['checkpoints', 'life'])).stdout, /first/)
  assert.match((await cli.berth(['list', '--prefix', 'life-'])).stdout, /life-2/)
  const adopted = await cli.berth(['adopt', 'life', 'life-2', '--delete-fork', '--json'])
  assert.deepEqual([adopted.code, (JSON.parse(adopted.stdout) as { kind: string }).kind], [0, 'adopt'])
  assert.doesNotMatch((await cli.berth(['list', '--prefix', 'life-'])).stdout, /life-2/)
  assert.equal((await cli.berth(['delete', 'life'])).code, 0)
})

test("control characters in other people's names are escaped, and do not reach the terminal", async () => {
  const hostile = '\u001b[2J\u009b31m\u202etxt\u061c.exe'
  const shown = '\\x1b[2J\\x9b31m\\u202etxt\\u061c.exe'
  await (await cli.double.berth.find('w'))?.files.write(`/home/user/${hostile}`, 'x')
  const listed = await cli.berth(['files', 'list', 'w:/home/user'])
  const missing = await cli.berth(['exec', 'w', '--', hostile])
  const unknown = await cli.berth(['suspend', hostile])
  for (const text of [listed.stdout, missing.stderr, unknown.stderr])
    assert.deepEqual([text.includes(shown), text.includes('\u001b')], [true, false], text)
})

test('a key is in no process argument, and no completion', async () => {
  const { apiKey } = cli.double.options
  let told = ''
  const seen = (pid: number) => {
    told = ['cmdline', 'comm', 'status'].map((name) => readFileSync(`/proc/${pid}/${name}`, 'utf8')).join('')
    process.kill(pid, 'SIGTERM')
  }
  await cli.berth(['exec', 'w', '--', 'waits'], { during: seen })
  assert.deepEqual([told.includes('waits'), told.includes(apiKey)], [true, false])
  await cli.berth(['login', '--profile', apiKey.slice(0, 3)], { stdin: `${apiKey}\n`, env: { BERTH_API_KEY: '', BERTH_URL: cli.url } })
  for (const words of [[], ['login'], ['login', '--profile'], ['secrets', 'create'], ['me', '--profile', '']])
    assert.equal((await cli.berth(['complete', ...words])).stdout.includes(apiKey), false)
})

test('a secret is read from standard input, and never printed', async () => {
  const { stdout, stderr, code } = await cli.berth(['secrets', 'create', 'TOKEN'], { stdin: 'hush-hush\n' })
  assert.equal(code, 0)
  assert.equal(`${stdout}${stderr}`.includes('hush'), false)
  assert.match((await cli.berth(['secrets', 'list'])).stdout, /TOKEN/)
})

test('any route can be called', async () => {
  const { stdout } = await cli.berth(['api', 'get', '/v1/me', '--json'])
  assert.equal(JSON.parse(stdout).type, 'api_key')
})

test('a profile is readable by its owner alone, and used when the environment sets nothing', async () => {
  const { apiKey } = cli.double.options
  const alone = { BERTH_API_KEY: '', BERTH_URL: cli.url }
  const { code, stderr } = await cli.berth(['login', '--profile', 'work'], { stdin: `${apiKey}\n`, env: alone })
  assert.deepEqual([code, stderr.includes(apiKey)], [0, false])
  assert.equal(statSync(path.join(cli.folder, 'profiles.json')).mode & 0o777, 0o600)
  assert.equal((await cli.berth(['me', '--profile', 'work'], { env: { BERTH_API_KEY: '', BERTH_URL: '' } })).code, 0)
})

const MISTAKES: [words: string[], env: Record<string, string>, code: number, stderr: RegExp][] = [
  [['nonsense'], {}, 2, /no command nonsense\nTry: berth help/],
  [['exec', 'w'], {}, 2, /stands after the workspace/],
  [['suspend'], {}, 2, /takes WORKSPACE\nTry: berth suspend --help/],
  [['open', 'w', '--colour'], {}, 2, /Unknown option '--colour'/],
  [['suspend', 'nowhere'], {}, 1, /no workspace nowhere\nTry: berth open nowhere/],
  [['me'], { BERTH_API_KEY: '' }, 1, /Try: berth login/],
  [['list'], { BERTH_API_KEY: 'sfk_wrong' }, 1, /unauthenticated.*\nRequest .*\nTry: berth login/s],
  [['api', 'get', '/v1/nothing'], {}, 1, /not_found/],
]
for (const [words, env, code, stderr] of MISTAKES)
  test(`berth ${words.join(' ')} ${Object.keys(env).join(' ')} ends with ${code} and says what to do`, async () => {
    const ran = await cli.berth(words, { env })
    assert.equal(ran.code, code, ran.stderr)
    assert.match(ran.stderr, stderr)
  })

test('--help describes every flag, including those of every command', async () => {
  const { stdout } = await cli.berth(['open', '--help'])
  const told = [...stdout.matchAll(/^ {2}--(\S+)(?: \S+)? {2,}\S.*$/gm)].map(([, flag]) => flag)
  assert.deepEqual(told.slice(0, 2), ['template', 'memory'])
  assert.deepEqual(told.slice(-7), ['json', 'profile', 'url', 'project', 'organization', 'help', 'version'])
  assert.equal(stdout.split('\n').filter((line) => line.startsWith('  --')).length, told.length)
})

test('commands are completed without a key or a service', async () => {
  const none = { BERTH_API_KEY: '', BERTH_URL: 'http://127.0.0.1:1' }
  assert.deepEqual((await cli.berth(['complete', 'secrets'], { env: none })).stdout.split('\n').slice(0, 3), ['list', 'create', 'rotate'])
  for (const shell of ['bash', 'zsh', 'fish'])
    assert.match((await cli.berth(['completion', shell], { env: none })).stdout, /berth complete/)
})

test('bash runs a quoted line, and a line after -- is refused with a hint', async () => {
  cli.double.programs['bash'] = ({ argv, stdout }) => void stdout(argv.slice(1).join(' '))
  assert.deepEqual(await cli.berth(['exec', 'w', 'ls | head']), { code: 0, stdout: '-lc ls | head', stderr: '' })
  const { code, stderr } = await cli.berth(['exec', 'w', '--', 'ls | head'])
  assert.equal(code, 127)
  assert.match(stderr, /Try: berth exec w "ls \| head"/)
  assert.equal((await cli.berth(['exec', 'w'])).code, 2)
})

test('the words after a workspace are the command, with its own flags', async () => {
  cli.double.programs['words'] = ({ argv, stdout }) => void stdout(JSON.stringify(argv.slice(1)))
  const table: [words: string[], seen: string[]][] = [
    [
      ['w', 'words', '-la', '--json', '--version', '--help'],
      ['-la', '--json', '--version', '--help'],
    ],
    [
      ['--cwd', '/tmp', 'w', '--env=A=b', 'words', '--', '-x'],
      ['--', '-x'],
    ],
    [
      ['w', '--cwd', '/tmp', '--', 'words', '--', 'two words'],
      ['--', 'two words'],
    ],
    [['w', '--', 'words'], []],
  ]
  for (const [words, seen] of table) {
    const { code, stdout, stderr } = await cli.berth(['exec', ...words])
    assert.deepEqual([code, stdout, stderr], [0, JSON.stringify(seen), ''], words.join(' '))
  }
  const { code, stderr } = await cli.berth(['exec', 'w', '--colour', 'words'])
  assert.deepEqual([code, /Unknown option '--colour'/.test(stderr)], [2, true])
})

test('sizes are accepted in common spellings, and a senseless size is refused', async () => {
  const { code } = await cli.berth(['open', 'sized', '--memory', '2GiB', '--cpu', '1.5', '--disk', '20'])
  assert.equal(code, 0)
  const { stderr, code: refused } = await cli.berth(['open', 'sized-2', '--memory', 'lots'])
  assert.deepEqual([refused, /--memory does not take lots/.test(stderr)], [2, true])
})

test('with --json a refusal is JSON on standard error, with its details', async () => {
  const { code, stdout, stderr } = await cli.berth(['files', 'cat', 'w:/missing', '--json'])
  const { error } = JSON.parse(stderr) as { error: { code: string; reason: string | null } }
  assert.deepEqual([code, stdout, error.code], [1, '', 'not_found'])
})

test('without a service a command fails within seconds, and names the address', { timeout: patience(60_000) }, async () => {
  const env = { BERTH_URL: 'http://127.0.0.1:9' }
  const { code, stderr } = await cli.berth(['me'], { env })
  assert.equal(code, 1)
  assert.match(stderr, /There is no answer from http:\/\/127\.0\.0\.1:9; trying again \(Ctrl-C ends\)[^]*ECONNREFUSED[^]*connection_failed/)
})

test('a second Ctrl-C leaves a command that does not end', { timeout: patience(60_000) }, async () => {
  cli.double.programs['stays'] = ({ stdout }) => {
    stdout('begun\n')
    return new Promise(() => undefined)
  }
  const during = (pid: number) => {
    process.kill(pid, 'SIGINT')
    setTimeout(() => process.kill(pid, 'SIGINT'), 100)
  }
  cli.onRequest = (url) => (url.endsWith('/signal') ? new Promise<never>(() => undefined) : undefined)
  const { code, stderr } = await cli.berth(['exec', 'w', '--id', 'stays', '--', 'stays'], { during })
  cli.onRequest = undefined
  assert.deepEqual([code, /command stays goes on/.test(stderr)], [130, true])
})

test("a person's project comes from a flag, a variable or the profile", async () => {
  const projects = new Set<string>()
  cli.onRequest = (url) => void (url.includes('/v1/projects/') && projects.add(/projects\/([^/]*)/.exec(url)?.[1] ?? ''))
  await cli.berth(['keys', 'list', '--project', 'by-flag'])
  await cli.berth(['keys', 'list'], { env: { BERTH_PROJECT: 'by-variable' } })
  await cli.berth(['login', '--profile', 'person', '--project', 'by-profile', '--url', cli.url])
  await cli.berth(['keys', 'list', '--profile', 'person'])
  cli.onRequest = undefined
  assert.deepEqual([...projects], ['by-flag', 'by-variable', 'by-profile'])
})
