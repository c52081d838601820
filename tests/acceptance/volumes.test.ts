// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Client, createClient, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

interface Volume {
  id: string
  state: string
  attachments: { workspace_id: string; mount_path: string; mode: string; state: string }[]
}

let service: Service
let client: Client
let project: string

before(async () => {
  service = await startService()
  client = createClient(service.base_url, service.api_key)
  project = (await client.api<{ api_key: { project_id: string } }>('/v1/me')).body.api_key.project_id
})
after(async () => {
  await service.stop()
})

const small = { caps: { memory_mib: 256, disk_gib: 1 } }
const at = '/home/user/data'
const volumes = (id = '') => `/v1/projects/${project}/volumes${id === '' ? '' : `/${id}`}`
const read = async (id: string) => (await client.api<Volume>(volumes(id))).body

async function made(name: string, quota_gib = 1): Promise<string> {
  const operation = await client.operate(volumes(), { json: { name, quota_gib } })
  assert.equal(operation.state, 'succeeded', JSON.stringify(operation))
  return operation.result?.['volume_id'] as string
}

function attach(workspace: OpenedWorkspace, volume_id: string, more: object = {}) {
  return client.operate(`/v1/workspaces/${workspace.id}/volumes`, { json: { volume_id, mount_path: at, ...more } })
}

const detach = (workspace: OpenedWorkspace, volume_id: string) =>
  client.operate(`/v1/workspaces/${workspace.id}/volumes/${volume_id}`, { method: 'DELETE' })

async function sh(workspace: OpenedWorkspace, script: string, body: object = {}): Promise<string> {
  const { stdout, stderr, exit } = await client.run(workspace, ['sh', '-c', script], { ...body })
  return `${stdout}${stderr}${exit.exit_code === 0 ? '' : `exit ${exit.exit_code}`}`
}

test('two running workspaces see changes to a volume at once: by a command, the files API and a rename', async () => {
  const volume_id = await made('shared')
  const one = await client.open('one', small)
  const two = await client.open('two', small)
  assert.deepEqual((await attach(one, volume_id)).result, { volume_id, mount_path: at })
  assert.equal((await attach(two, volume_id, { mount_path: '/srv/set/of/data' })).state, 'succeeded')
  assert.equal(await sh(one, `echo first > ${at}/file && cat ${at}/file`), 'first\n')
  assert.equal(await sh(two, 'cat /srv/set/of/data/file && echo second >> /srv/set/of/data/file && ls /srv/set/of/data'), 'first\nfile\n')
  assert.equal(await sh(one, `cat ${at}/file && mv ${at}/file ${at}/moved`), 'first\nsecond\n')
  assert.equal(await sh(two, 'ls /srv/set/of/data'), 'moved\n')
  const written = await client.tool(one, `/files?path=${at}/api`, { method: 'PUT', bytes: Buffer.from('by the API') })
  assert.equal(written.status, 200, JSON.stringify(written.body))
  const answer = await client.tool(two, '/files?path=/srv/set/of/data/api')
  assert.equal(answer.bytes.toString(), 'by the API')
  const { attachments } = await read(volume_id)
  assert.deepEqual(
    attachments.map(({ workspace_id, mount_path, mode, state }) => [workspace_id, mount_path, mode, state]),
    [
      [one.id, at, 'read_write', 'attached'],
      [two.id, '/srv/set/of/data', 'read_write', 'attached'],
    ],
  )
  assert.deepEqual(refusalOf(await client.api(volumes(volume_id), { method: 'DELETE' })), [409, 'conflict', 'volume_attached'])
  for (const workspace of [one, two]) assert.equal((await detach(workspace, volume_id)).state, 'succeeded')
  assert.equal(await sh(one, `ls -A ${at}`), '', 'the place is empty, and the disk of the workspace has nothing of it')
  const gone = await client.operate(volumes(volume_id), { method: 'DELETE' })
  assert.equal(gone.state, 'succeeded')
  assert.equal((await read(volume_id)).state, 'deleted')
})

test('root cannot write to a read-only volume, and a volume holds no more than its quota', async () => {
  const volume_id = await made('limited')
  const writer = await client.open('writer', small)
  const reader = await client.open('reader', small)
  await attach(writer, volume_id)
  await attach(reader, volume_id, { mode: 'read_only' })
  assert.equal(await sh(writer, `echo kept > ${at}/file`), '')
  assert.equal(await sh(reader, `cat ${at}/file`), 'kept\n')
  const root = { user: 'root' }
  assert.match(await sh(reader, `echo changed > ${at}/file`, root), /Read-only file system\nexit/)
  assert.match(await sh(reader, `mount -o remount,rw,bind ${at}; touch ${at}/other`, root), /Read-only file system\nexit/)
  assert.match(await sh(reader, `touch /volumes/0/other /volumes/other`, root), /Read-only file system/)
  const full = await sh(writer, `dd if=/dev/zero of=${at}/large bs=1M count=1100 conv=fsync 2>&1; stat -c %s ${at}/large`)
  assert.match(full, /quota|No space/)
  assert.ok(Number(full.trim().split('\n').at(-1)) <= 2 ** 30)
  assert.equal(await sh(writer, `rm ${at}/large && echo again > ${at}/small && cat ${at}/small`), 'again\n')
})

test('a detach of a volume in use fails and its command goes on; afterwards it succeeds', async () => {
  const volume_id = await made('busy')
  const workspace = await client.open('user', small)
  await attach(workspace, volume_id)
  for (const argv of [
    ['sh', '-c', `exec 3> ${at}/open; touch /tmp/uses-ex; sleep 1000`],
    ['sh', '-c', `cd ${at}; touch /tmp/uses-cd; sleep 1000`],
  ]) {
    const started = await client.tool<{ session_id: string }>(workspace, '/exec', {
      json: { argv, session_id: `use-${argv[2]?.slice(0, 2)}` },
    })
    assert.equal(started.status, 201)
    await sh(workspace, `for turn in $(seq 600); do [ -e /tmp/uses-${argv[2]?.slice(0, 2)} ] && exit; sleep 0.05; done; exit 1`)
    const { state, error } = await detach(workspace, volume_id)
    assert.deepEqual([state, error?.code, error?.details['reason']], ['failed', 'dependency_failed', 'volume_busy'])
    assert.equal(await sh(workspace, `touch ${at}/here && ls ${at} | grep here`), 'here\n', 'it has it still')
    assert.equal((await read(volume_id)).attachments[0]?.state, 'attached')
    await client.tool(workspace, `/exec/${started.body.session_id}/cancel`, { method: 'POST' })
    const told = await client.tool<{ state: string }>(workspace, `/exec/${started.body.session_id}`)
    for (let turn = 0; turn < 200 && told.body.state === 'running'; turn++) {
      await new Promise((resolve) => setTimeout(resolve, 25))
      Object.assign(told.body, (await client.tool<{ state: string }>(workspace, `/exec/${started.body.session_id}`)).body)
    }
  }
  assert.equal((await detach(workspace, volume_id)).state, 'succeeded')
})

test('a volume stays attached over a suspend, a hibernation, a fork, a reset, a death and a reboot', async () => {
  const volume_id = await made('lasting')
  const source = await client.open('lasting', small)
  await attach(source, volume_id)
  assert.equal(await sh(source, `echo kept > ${at}/file`), '')
  const holder = `exec 3< ${at}/file; while :; do sleep 0.1; cat <&3; done`
  await client.tool(source, '/exec', { json: { argv: ['sh', '-c', holder], session_id: 'holder' } })
  await client.operate(`/v1/workspaces/${source.id}/suspend`)
  const resumed = await client.open('lasting', small)
  assert.equal(await sh(resumed, `cat ${at}/file`), 'kept\n')
  const held = await client.tool<{ state: string }>(resumed, '/exec/holder')
  assert.equal(held.body.state, 'running', 'what had a file of it open goes on')
  assert.equal((await client.operate(`/v1/workspaces/${source.id}/fork`, { json: { key: 'forked' } })).state, 'succeeded')
  const forked = await client.open('forked')
  assert.equal(await sh(forked, `cat ${at}/file && echo forked > ${at}/by-the-fork`), 'kept\n')
  assert.equal((await read(volume_id)).attachments.length, 2)
  assert.equal((await client.operate(`/v1/workspaces/${source.id}/reset`, { json: { confirm_destructive: true } })).state, 'succeeded')
  const reset = await client.open('lasting', small)
  assert.equal(await sh(reset, `cat ${at}/file ${at}/by-the-fork`), 'kept\nforked\n')
  await service.kill_machine(source.id)
  for (;;) {
    const { body } = await client.api<{ observed_state: string }>(`/v1/workspaces/${source.id}`)
    if (body.observed_state === 'failed') break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.equal(await sh(await client.open('lasting', small), `cat ${at}/file`), 'kept\n')
  await service.kill9('hostd')
  await service.ready()
  assert.equal(await sh(await client.open('lasting', small), `cat ${at}/file`), 'kept\n')
  await service.reboot()
  assert.equal(await sh(await client.open('lasting', small), `cat ${at}/file`), 'kept\n')
})

const holding = (file: string) =>
  `exec 3< ${file}; n=0; while :; do n=$((n+1)); echo $n > /tmp/m; mv /tmp/m /tmp/n; cat <&3 > /tmp/read 2>&1; sleep 0.05; done`
const alive = async (workspace: OpenedWorkspace) => {
  const counts = await sh(
    workspace,
    'a=; for i in $(seq 100); do b=$(cat /tmp/n 2>/dev/null); [ -n "$b" ] && [ "$b" -gt "${a:-$b}" ] && echo alive && break; a=${a:-$b}; sleep 0.1; done',
  )
  return counts
}

test('suspend and resume succeed whatever a neighbour does to an open file of a volume; a deleted file then reads as empty', async () => {
  const volume_id = await made('stale')
  const neighbour = await client.open('neighbour', small)
  await attach(neighbour, volume_id)
  await sh(neighbour, `mkdir ${at}/dir; for f in changed replaced gone late dir/inner; do echo $f > ${at}/$f; done`)
  for (const [key, file, before, between] of [
    ['unchanged', 'changed', 'true', 'true'],
    ['changed', 'changed', 'true', `echo more >> ${at}/changed`],
    ['gone', 'gone', 'true', `rm ${at}/gone`],
    ['replaced', 'replaced', 'true', `rm ${at}/replaced; mkdir ${at}/replaced`],
    ['late', 'late', `rm ${at}/late`, 'true'],
    ['inner', 'dir/inner', 'true', `rm -r ${at}/dir`],
  ] as const) {
    const holder = await client.open(`holder-${key}`, small)
    await attach(holder, volume_id)
    await client.tool(holder, '/exec', { json: { argv: ['sh', '-c', holding(`${at}/${file}`)], session_id: 'holder' } })
    assert.equal(await alive(holder), 'alive\n')
    await sh(neighbour, before)
    await sh(holder, `ls ${at} > /dev/null`)
    assert.equal((await client.operate(`/v1/workspaces/${holder.id}/suspend`)).state, 'succeeded', key)
    await sh(neighbour, between)
    const resumed = await client.operate(`/v1/workspaces/${holder.id}/resume`)
    assert.deepEqual([key, resumed.state, resumed.error], [key, 'succeeded', null])
    const again = await client.open(`holder-${key}`)
    assert.equal(await alive(again), 'alive\n', key)
    assert.match(await sh(again, `ls ${at}`), /changed/)
    if (key === 'gone') assert.equal(await sh(again, 'cat /tmp/read'), '')
    await client.operate(`/v1/workspaces/${holder.id}`, { method: 'DELETE' })
  }
})

test('a forced deletion detaches a volume from running and suspended machines, and ends only processes that use it', async () => {
  const volume_id = await made('forced')
  const user = await client.open('forced-user', small)
  const sleeper = await client.open('forced-sleeper', small)
  for (const workspace of [user, sleeper]) {
    await attach(workspace, volume_id)
    await sh(workspace, `echo x > ${at}/${workspace.id}`)
    await client.tool(workspace, '/exec', { json: { argv: ['sh', '-c', holding(`${at}/${workspace.id}`)], session_id: 'holder' } })
    await client.tool(workspace, '/exec', { json: { argv: ['sleep', '1000'], session_id: 'other' } })
    assert.equal(await alive(workspace), 'alive\n')
  }
  await client.operate(`/v1/workspaces/${sleeper.id}/suspend`)
  const wrong = await client.api(`${volumes(volume_id)}?force=true&confirm_name=other`, { method: 'DELETE' })
  assert.deepEqual(refusalOf(wrong), [422, 'validation_failed', undefined])
  assert.equal((await client.operate(`${volumes(volume_id)}?force=true&confirm_name=forced`, { method: 'DELETE' })).state, 'succeeded')
  assert.deepEqual((await read(volume_id)).attachments, [])
  const states = async (workspace: OpenedWorkspace) =>
    Promise.all(['holder', 'other'].map(async (id) => (await client.tool<{ state: string }>(workspace, `/exec/${id}`)).body.state))
  assert.deepEqual(await states(user), ['exited', 'running'])
  assert.match(
    await sh(user, `ls -A ${at}; touch ${at}/own`),
    /^touch.*Permission denied\nexit 1$/,
    'nothing lands in its own disk unnoticed',
  )
  assert.equal((await client.operate(`/v1/workspaces/${sleeper.id}/resume`)).state, 'succeeded')
  const awake = await client.open('forced-sleeper')
  assert.equal((await states(awake))[1], 'running')
  assert.equal(await sh(awake, `ls -A ${at}`), '')
})

test('a volume detached or attached during a suspend is absent or present after the resume', async () => {
  const first = await made('asleep-first')
  const second = await made('asleep-second')
  const workspace = await client.open('asleep', small)
  await attach(workspace, first)
  await sh(workspace, `echo first > ${at}/file`)
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.equal((await detach(workspace, first)).state, 'succeeded')
  assert.equal((await attach(workspace, second)).state, 'succeeded')
  const resumed = await client.open('asleep')
  assert.equal(await sh(resumed, `ls -A ${at}; echo second > ${at}/file; cat ${at}/file`), 'second\n')
  assert.equal((await client.operate(volumes(first), { method: 'DELETE' })).state, 'succeeded')
})

test('an attach at a path over a link or a file fails, and the workspace goes on without the volume', async () => {
  const volume_id = await made('refused')
  const workspace = await client.open('refused', small)
  await sh(workspace, 'ln -s /etc /home/user/link; echo x > /home/user/plain')
  for (const [mount_path, why] of [
    ['/home/user/link/data', 'over_a_link'],
    ['/home/user/link', 'over_a_link'],
    ['/home/user/plain', 'not_a_directory'],
  ] as const) {
    const { state, error } = await attach(workspace, volume_id, { mount_path })
    assert.deepEqual([mount_path, state, error?.details], [mount_path, 'failed', { reason: 'mount_refused', why }])
  }
  const { body } = await client.api<{ data: unknown[] }>(`/v1/workspaces/${workspace.id}/volumes`)
  assert.deepEqual(body.data, [])
  assert.equal((await attach(workspace, volume_id)).state, 'succeeded')
})

test('a resume reports the volumes that could not be mounted, and why', async () => {
  const [behind, beside] = [await made('behind-a-link'), await made('beside-a-link')]
  const workspace = await client.open('begins-without', small)
  await sh(workspace, 'ln -s /etc /home/user/link')
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  const mount_path = '/home/user/link/data'
  assert.equal((await attach(workspace, behind, { mount_path })).state, 'succeeded')
  assert.equal((await attach(workspace, beside)).state, 'succeeded')
  const { state, result } = await client.operate(`/v1/workspaces/${workspace.id}/resume`)
  assert.deepEqual([state, result?.['refused_volumes']], ['succeeded', [{ volume_id: behind, mount_path, why: 'over_a_link' }]])
  assert.equal(await sh(await client.open('begins-without'), `echo kept > ${at}/file; ls ${at}`), 'file\n')
})

test('a lock on a file of a volume works within a workspace, and not between workspaces', async () => {
  const volume_id = await made('locks')
  const [one, two] = [await client.open('locks-one', small), await client.open('locks-two', small)]
  for (const workspace of [one, two]) assert.equal((await attach(workspace, volume_id)).state, 'succeeded')
  const FLOCK = `import fcntl,sys\nf=open("${at}/lock","w")\ntry: fcntl.flock(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\nexcept OSError: sys.exit(9)`
  const FCNTL = FLOCK.replace('fcntl.flock(', 'fcntl.lockf(')
  for (const lock of [FLOCK, FCNTL]) {
    const argv = ['python3', '-c', `${lock}\nprint("held",flush=True)\nimport time; time.sleep(600)`]
    const { body } = await client.tool<{ session_id: string }>(one, '/exec', { json: { argv } })
    await until('the lock is held', 60_000, async () => {
      const output = await client.tool(one, `/exec/${body.session_id}/output?follow=false`)
      return output.bytes.toString().includes(Buffer.from('held\n').toString('base64'))
    })
    const taken = async (workspace: OpenedWorkspace) => (await client.run(workspace, ['python3', '-c', lock])).exit.exit_code
    assert.deepEqual([await taken(one), await taken(two)], [9, 0])
    await client.tool(one, `/exec/${body.session_id}/cancel`, { method: 'POST' })
  }
})
