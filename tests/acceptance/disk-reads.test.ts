// Needs its own installation: the tests kill its hostd.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { type Answer, type Client, createClient, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { depth } from '../support/depth.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

let service: Service
let client: Client
let host_folder: string
let canary: string
const SECRET = randomBytes(24).toString('hex')

before(async () => {
  host_folder = mkdtempSync('/tmp/berth-canary-')
  canary = path.join(host_folder, 'canary')
  writeFileSync(canary, SECRET, { mode: 0o644 })
  service = await startService({ settings: { slot_memory_mib: 512 } })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
  rmSync(host_folder, { recursive: true, force: true })
})

const READS = depth({ short: 500, long: 2000 })
const small = { caps: { memory_mib: 512 } }
const HOME = '/home/user'
const files = (verb: string, at: string, query = '') => `/files${verb}?path=${encodeURIComponent(at)}${query}`
const search = (pattern: string, at = HOME) => ({ json: { path: at, pattern, context_lines: 1 } })
const sh = async (workspace: OpenedWorkspace, script: string) => {
  const { exit, stderr } = await client.run(workspace, ['sh', '-c', script])
  assert.deepEqual([exit.exit_code, stderr], [0, ''])
}
const suspend = async (workspace: OpenedWorkspace): Promise<OpenedWorkspace> => {
  const { state, error } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.deepEqual([state, error], ['succeeded', null])
  return { ...workspace, token: await client.token(workspace.id) }
}
const resume = async (workspace: OpenedWorkspace): Promise<OpenedWorkspace> => {
  const { state, error } = await client.operate(`/v1/workspaces/${workspace.id}/resume`)
  assert.deepEqual([state, error], ['succeeded', null])
  return { ...workspace, token: await client.token(workspace.id) }
}
const remove = (workspace: OpenedWorkspace) => client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
const readers = () =>
  globSync('/proc/[0-9]*/cmdline').filter((file) => commandLine(file).startsWith(`berth-${service.instance}-disk-reader\0`))
const commandLine = (file: string) => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // it ended
  }
}
const leftovers = () => [
  ...readers(),
  ...globSync(`/sys/fs/cgroup/**/berth-${service.instance}/machines/read-*`),
  ...globSync(path.join(service.run_dir, '**/reads/read-*')),
]

/** Drops the parts of an answer that depend on a running sandbox: docs/decisions/disks.md. */
function settled({ status, headers, bytes, body }: Answer) {
  const shown = ['content-type', 'content-length', 'content-range', 'x-file-size', 'x-file-revision'].map((name) => headers[name])
  const [type, length] = shown
  if (type !== 'application/octet-stream') return [status, JSON.stringify(body, withoutTimes)]
  return [status, shown, length, bytes.toString('base64')]
}
function withoutTimes(name: string, value: unknown): unknown {
  if (name === 'modified_at' || name === 'request_id') return undefined
  if (typeof value === 'object' && value !== null && 'type' in value && value.type === 'directory') return { ...value, size: undefined }
  return value
}

test('reads, stats, lists and searches answer the same before and after a suspend', async () => {
  let workspace = await client.open('same', small)
  await sh(
    workspace,
    `cd ${HOME}; mkdir -p d/e; printf 'one\\nneedle here\\nthree\\n' > text; head -c 300000 /dev/urandom > bytes; chmod 0 bytes
     ln -s ${HOME}/text absolute; ln -s text relative; ln -s nowhere dangling; ln -s loop loop; touch 'odd name é' "$(printf 'bad\\377')"
     truncate -s 1T sparse; head -c 17000000 /dev/zero > large; : > empty; mkdir many; cd many; touch $(seq 1 1500)
     sudo rm /etc/motd; sudo mv /usr/share/doc /usr/share/moved; sudo sh -c 'echo needle > /root/secret; chmod 600 /root/secret'`,
  )
  const reads: [string, Parameters<Client['tool']>[2]?][] = [
    ...[
      'text',
      'bytes',
      'absolute',
      'relative',
      'dangling',
      'loop',
      'large',
      'empty',
      'd',
      'absent',
      'text/below',
      '../../root/secret',
    ].map((name): [string] => [files('', `${HOME}/${name}`)]),
    [files('', `${HOME}/bytes`), { headers: { range: 'bytes=1000-1999' } }],
    [files('', `${HOME}/text`), { headers: { range: 'bytes=100-200' } }],
    [files('', `${HOME}/text`, '&offset=4&length=6')],
    [files('', `${HOME}/sparse`, '&offset=1000000000000&length=10')],
    [files('', '/etc/passwd')],
    [files('', '/etc/motd')],
    [files('', 'relative')],
    [files('', '/etc/passwd/x')],
    ...['text', 'bytes', 'absolute', 'sparse', 'd', 'absent'].map((name): [string] => [
      files('/stat', `${HOME}/${name}`, '&revision=true'),
    ]),
    [files('/stat', '/usr/share/moved')],
    [files('/list', HOME)],
    [files('/list', `${HOME}/many`)],
    [files('/list', `${HOME}/many`, '&limit=3')],
    [files('/list', `${HOME}/text`)],
    [files('/list', '/usr/share')],
    [files('/list', '/etc')],
    ['/files/search', search('needle')],
    ['/files/search', { json: { path: HOME, pattern: 'n.+le', regex: true, include: ['*.txt', 'te*'] } }],
    ['/files/search', { json: { path: HOME, pattern: '(a)\\1', regex: true } }],
    ['/files/search', search('needle', '/root')],
  ]
  const ask = async (read: (typeof reads)[number]) => client.tool(workspace, ...read)
  const awake: Answer[] = []
  for (const read of reads) awake.push(await ask(read))
  assert.deepEqual(new Set(awake.map(({ headers }) => headers['x-served-from'])), new Set([undefined]))
  workspace = await suspend(workspace)
  for (const [at, read] of reads.entries()) {
    const answer = await ask(read)
    const seen = awake[at]
    assert.ok(seen)
    assert.deepEqual([read[0], settled(answer)], [read[0], settled(seen)])
    assert.equal(answer.headers['x-served-from'], answer.status < 300 ? 'disk' : undefined, read[0])
  }
  assert.deepEqual(refusalOf(await client.tool(workspace, files('', `${HOME}/new`), { method: 'PUT', bytes: Buffer.from('x') })), [
    409,
    'workspace_not_running',
    undefined,
  ])
  workspace = await resume(workspace)
  assert.deepEqual(leftovers(), [])
  const again = await client.tool(workspace, files('', `${HOME}/text`))
  assert.deepEqual([again.status, again.headers['x-served-from']], [200, undefined])
  await remove(workspace)
})

test('a disk read follows links of a guest only within the guest', async () => {
  let workspace = await client.open('links', small)
  const links = [
    canary,
    host_folder,
    `/proc/1/root${canary}`,
    `/proc/self/root${canary}`,
    `../../../../../..${canary}`,
    '/proc/self/fd/3',
    '/dev/fd/5',
  ]
  await sh(workspace, links.map((target, at) => `ln -s ${target} ${HOME}/l${at}`).join(' && '))
  workspace = await suspend(workspace)
  const answers = []
  for (const at of [...links.keys()].map((each) => `${HOME}/l${each}`)) {
    for (const name of [at, `${at}/canary`]) answers.push(await client.tool(workspace, files('', name)))
    answers.push(await client.tool(workspace, files('/stat', at, '&revision=true')), await client.tool(workspace, files('/list', at)))
    answers.push(await client.tool(workspace, '/files/search', search(SECRET, at)))
  }
  for (const name of [canary, `/proc/self/root${canary}`, `/../../../..${canary}`])
    answers.push(await client.tool(workspace, files('', name)))
  answers.push(await client.tool(workspace, '/files/search', search(SECRET, '/')))
  assert.deepEqual(
    answers.filter(({ bytes }) => bytes.includes(SECRET)),
    [],
  )
  for (const { status, headers, body } of answers) {
    const harmless = headers['x-served-from'] === 'disk' || status === 404 || status === 409 || status === 422
    assert.ok(harmless, `${status} ${JSON.stringify(body)}`)
  }
  await remove(workspace)
  await until('no reader is left', 60_000, () => leftovers().length === 0)
})

test('renames that race with disk reads over two suspends and resumes expose no byte of the host', async () => {
  const name = 'racer'
  let workspace = await client.open(name, small)
  await sh(workspace, `cd ${HOME}; mkdir real; echo inside > real/canary; ln -s ${host_folder} link`)
  const race = `cd ${HOME}; while :; do mv -T real swap; mv -T link real; mv -T swap link; done`
  const started = await client.tool(workspace, '/exec', { json: { session_id: 'race', argv: ['sh', '-c', race] } })
  assert.equal(started.status, 201)
  const seen = { reads: 0, asleep: 0, leaked: 0, statuses: new Set<number>() }
  let [over, asleep] = [false, false]
  const read = async (turn: number) => {
    const at = `${HOME}/${['real', 'link', 'swap'][turn % 4] ?? 'real'}`
    const asked = [
      () => client.tool(workspace, files('', `${at}/canary`)),
      () => client.tool(workspace, files('/list', at)),
      () => client.tool(workspace, '/files/search', search(SECRET, at)),
    ] as const
    const began_asleep = asleep
    const answer = await (asked[turn % 3] ?? asked[0])()
    seen.reads += 1
    seen.statuses.add(answer.status)
    // 404: a read between two renames finds nothing.
    if (began_asleep && (answer.headers['x-served-from'] === 'disk' || answer.status === 404)) seen.asleep += 1
    if (answer.bytes.includes(SECRET)) seen.leaked += 1
  }
  const readOn = async (worker: number) => {
    for (let turn = worker; !over || seen.reads < READS; turn += 1) await read(turn)
  }
  const reading = Promise.all([0, 1, 2].map(readOn))
  for (let cycle = 0; cycle < 2; cycle += 1) {
    workspace = await suspend(workspace)
    const before = seen.asleep
    asleep = true
    await until('the disk was read', 180_000, () => seen.asleep > before + READS / 4)
    asleep = false
    workspace = await resume(workspace)
  }
  over = true
  await reading
  assert.equal(seen.leaked, 0)
  assert.ok(seen.reads >= READS && seen.asleep > READS / 2, JSON.stringify({ ...seen, statuses: [...seen.statuses] }))
  // 503: offline_changed, or a machine that is ending. 409: a state between asleep and awake.
  assert.deepEqual(
    [...seen.statuses].filter((status) => ![200, 404, 409, 422, 503].includes(status)),
    [],
  )
  assert.equal(readFileSync(canary, 'utf8'), SECRET)
  await remove(workspace)
  await until('no reader is left', 60_000, () => leftovers().length === 0)
})

test('disk reads work again after the reader or hostd is killed', async () => {
  const workspace = await suspend(await client.open('killed', small))
  const read = () => client.tool(workspace, files('', '/etc/hostname'))
  const first = await read()
  assert.equal(first.status, 200)
  const [reader] = readers()
  assert.ok(reader !== undefined && readers().length === 1)
  process.kill(Number(reader.split('/')[2]), 'SIGKILL')
  assert.deepEqual([(await read()).status, (await read()).bytes.toString()], [200, first.bytes.toString()])
  await service.kill9('hostd')
  await until('the readers have ended with their host', 60_000, () => readers().length === 0)
  const meanwhile = await read()
  if (meanwhile.status !== 200) assert.deepEqual(refusalOf(meanwhile), [409, 'workspace_not_running', 'offline_unavailable'])
  await service.ready()
  assert.equal((await read()).bytes.toString(), first.bytes.toString())
  assert.equal(readers().length, 1)
  await remove(workspace)
  await until('no reader is left', 60_000, () => leftovers().length === 0)
})

test('a disk read shows the disk of the last suspend, and after a reset that of the template', async () => {
  let workspace = await client.open('changed', small)
  await sh(workspace, `echo v1 > ${HOME}/f`)
  workspace = await resume(await suspend(workspace))
  await sh(workspace, `echo v2 > ${HOME}/f`)
  workspace = await suspend(workspace)
  const text = async () => {
    const answer = await client.tool(workspace, files('', `${HOME}/f`))
    return [answer.status, answer.status === 200 ? answer.bytes.toString() : '']
  }
  assert.deepEqual(await text(), [200, 'v2\n'])
  const reset = await client.operate(`/v1/workspaces/${workspace.id}/reset`, { json: { confirm_destructive: true } })
  assert.equal(reset.state, 'succeeded')
  workspace = { ...workspace, token: await client.token(workspace.id) }
  assert.deepEqual(await text(), [404, ''])
  assert.equal((await client.tool(workspace, files('', '/etc/passwd'))).headers['x-served-from'], 'disk')
  await remove(workspace)
})
