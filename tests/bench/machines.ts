import { mkdirSync, rmSync } from 'node:fs'
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, timed, type Row } from './harness.ts'
import { createRawSandbox, type RawSandbox } from './raw-sandbox.ts'
import { withService } from './with-service.ts'

const execute = promisify(execFile)
const TRUE = ['/bin/true']

interface Guest {
  name: string
  title: string
  memory_mib: number
  /** MiB that Python fills before it prints `ready`. */
  fill_mib: number
}
const GUESTS: Guest[] = [
  { name: 'small', title: 'small guest', memory_mib: 1024, fill_mib: 0 },
  { name: '512', title: '512 MiB random', memory_mib: 1024, fill_mib: 512 },
  { name: '2048', title: '2 GiB random', memory_mib: 4096, fill_mib: 2048 },
]
const guests = (only: string | undefined) => GUESTS.filter(({ name }) => only === undefined || name === only)
const filler = (mib: number) => [
  'python3',
  '-u',
  '-c',
  `import os,time\nx=[os.urandom(1<<20) for _ in range(${mib})]\nopen('/tmp/ready','w').close()\nprint('ready')\nwhile True: time.sleep(1000)`,
]

export async function execRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-exec')
  const { sandbox, runsc_root } = await service.machine(workspace.id)
  // The engine enters the warm sandbox's root, which has only the agent, so the command names the loader of the workspace's disk.
  const libraries = '/claim/root/usr/lib/x86_64-linux-gnu'
  const inside = [`${libraries}/ld-linux-x86-64.so.2`, '--library-path', libraries, '/claim/root/usr/bin/true']
  await measure(
    { row: 1, name: 'exec', title: 'exec of /bin/true to its exit event', bar: { at_most: 0.5 } },
    {
      reference: () => timed(() => execute(service.runsc, ['--root', runsc_root, 'exec', sandbox, ...inside])),
      subject: () => timed(() => client.run(workspace, TRUE)),
    },
    { warm_ups: 200 },
  )
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

const OPEN = { row: 11, name: 'open', title: 'open a new key to its first result', bar: { at_most: 0.5 } }

export async function openRow(service: Service): Promise<void> {
  await measureOpen(service, { ...OPEN, title: `${OPEN.title}, slot ready` }, {})
  const caps = { memory_mib: 768 }
  await measureOpen(service, { ...OPEN, name: 'open-sized', title: `${OPEN.title}, slot of another memory ready` }, { caps })
}

export async function openColdRow(): Promise<void> {
  const row = { ...OPEN, name: 'open-cold', title: `${OPEN.title}, no slot`, bar: { at_most: 1.5 } }
  await withService({ slots: 0 }, (service) => measureOpen(service, row, {}))
}

async function measureOpen(service: Service, row: Row, body: Record<string, unknown>): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  await withRaw(service, async (raw) => {
    const bundle = raw.bundle(TRUE)
    let n = 0
    const opened: string[] = []
    let warm = false
    const subject = async () => {
      await service.slots_ready()
      if (warm) await service.warm_disks_ready() // waits for the pre-provisioned disk of the recent template
      warm = true
      try {
        return await timed(async () => {
          const workspace = await client.open(`bench-${row.name}-${n++}`, body)
          opened.push(workspace.id)
          await client.run(workspace, TRUE)
        })
      } finally {
        await Promise.all(opened.splice(0).map((id) => client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })))
      }
    }
    const reference = () => timed(() => raw.runsc('run', '--bundle', bundle, `bench-${n++}`))
    await measure(row, { reference, subject }, { samples_max: 3, warm_ups: 30 })
  })
}

export async function suspendRows(service: Service, only?: string): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  for (const guest of guests(only)) {
    const workspace = await filled(client, guest, `bench-suspend-${guest.name}`)
    const image = path.join(service.pool_path(), `bench-${guest.name}`)
    const reference = async () => {
      const { sandbox, runsc_root } = await service.machine(workspace.id)
      rmSync(image, { recursive: true, force: true })
      mkdirSync(image)
      const at = ['--root', runsc_root]
      process.kill(service.pid('cell'), 'SIGSTOP') // the cell would take a machine that another process pauses for a hung one
      try {
        const ms = await timed(async () => {
          await execute(service.runsc, [...at, 'pause', sandbox])
          await execute(service.runsc, [...at, 'checkpoint', '--leave-running', '--image-path', image, sandbox])
          await execute('sync', ['-f', image])
        })
        await execute(service.runsc, [...at, 'resume', sandbox])
        return ms
      } finally {
        process.kill(service.pid('cell'), 'SIGCONT')
      }
    }
    const subject = async () => {
      const ms = await timed(() => client.operate(`/v1/workspaces/${workspace.id}/suspend`))
      await resumed(client, workspace)
      return ms
    }
    await measure(
      { row: 13, name: `suspend-${guest.name}`, title: `suspend to suspended, ${guest.title}`, bar: { at_most: 1.3 } },
      { reference, subject },
      { pairs: guest.fill_mib > 1000 ? 5 : 9, samples_max: 2 },
    )
    rmSync(image, { recursive: true, force: true })
    await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
  }
}

export async function resumeRows(service: Service, only?: string): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  for (const guest of guests(only)) {
    await withRaw(service, async (raw) => {
      const image = await rawCheckpoint(raw, guest)
      const workspace = await filled(client, guest, `bench-resume-${guest.name}`)
      let n = 0
      const reference = async () => {
        const id = `restored-${n++}`
        const bundle = raw.bundle(guest.fill_mib > 0 ? filler(guest.fill_mib) : ['sleep', '100000'])
        const ms = await timed(async () => {
          await raw.runsc('restore', '--detach', '--image-path', image, '--bundle', bundle, id)
          await raw.runsc('exec', id, ...TRUE)
        })
        await raw.runsc('delete', '--force', id)
        return ms
      }
      const subject = async () => {
        const { state } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
        if (state !== 'succeeded') throw new Error(`suspend ${state}`)
        await service.slots_ready()
        return timed(async () => {
          await resumed(client, workspace)
          await client.run(workspace, TRUE)
        })
      }
      await measure(
        {
          row: 14,
          name: `resume-${guest.name}`,
          title: `resume to the first result, ${guest.title}`,
          bar: { at_most: guest.fill_mib === 0 ? 0.9 : 1.1 },
        },
        { reference, subject },
        { pairs: guest.fill_mib > 1000 ? 5 : 9, samples_max: 2 },
      )
      await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
    })
  }
}

const WITNESS = `import time
last=time.time(); worst=0.0
while True:
    time.sleep(0.001)
    now=time.time(); worst=max(worst, now-last); last=now
    try:
        open('/home/user/ask').close()
    except OSError:
        continue
    open('/home/user/worst.tmp','w').write(str(worst*1000)); __import__('os').rename('/home/user/worst.tmp','/home/user/worst'); __import__('os').remove('/home/user/ask'); worst=0.0; last=time.time()
`

export async function forkRows(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  await withRaw(service, async (raw) => {
    const source = await client.open('bench-fork')
    await client.tool(source, '/exec', { json: { argv: ['python3', '-c', WITNESS] } })
    const worst = async () =>
      Number(
        (await client.run(source, ['bash', '-c', 'rm -f worst; touch ask; until [ -s worst ]; do sleep 0.01; done; cat worst'])).stdout,
      )
    const image = path.join(raw.directory, 'image')
    await raw.runsc('run', '--detach', '--bundle', raw.bundle(['sleep', '100000']), 'forked')
    const checkpoint = () => {
      rmSync(image, { recursive: true, force: true })
      mkdirSync(image)
      return raw.runsc('checkpoint', '--leave-running', '--image-path', image, 'forked')
    }
    let n = 0
    const fork = async () => {
      await service.slots_ready()
      await worst()
      const ms = await timed(async () => {
        const { state } = await client.operate(`/v1/workspaces/${source.id}/fork`, { json: { key: `bench-fork-${n++}` } })
        if (state !== 'succeeded') throw new Error(`fork ${state}`)
      })
      const child = await client.open(`bench-fork-${n - 1}`)
      const still = await worst()
      await client.operate(`/v1/workspaces/${child.id}`, { method: 'DELETE' })
      return { ms, still }
    }
    await measure(
      { row: 15, name: 'fork-still', title: 'fork: how long the source stands still', bar: { at_most: 1.2 } },
      { reference: () => timed(checkpoint), subject: async () => (await fork()).still },
      { samples_max: 2 },
    )
    await measure(
      { row: 15, name: 'fork-ready', title: 'fork: until the child is ready', bar: { at_most: 1.2 } },
      {
        reference: async () => {
          const id = `child-${n++}`
          const bundle = raw.bundle(['sleep', '100000'])
          const ms = await timed(async () => {
            await checkpoint()
            await raw.runsc('restore', '--detach', '--image-path', image, '--bundle', bundle, id)
          })
          await raw.runsc('delete', '--force', id)
          return ms
        },
        subject: async () => (await fork()).ms,
      },
      { samples_max: 2 },
    )
    await raw.runsc('delete', '--force', 'forked')
    await client.operate(`/v1/workspaces/${source.id}`, { method: 'DELETE' })
  })
}

export async function withRaw(service: Service, work: (raw: RawSandbox) => Promise<void>): Promise<void> {
  const raw = createRawSandbox(service.runsc, service.layer)
  try {
    await work(raw)
  } finally {
    raw.close()
  }
}

export async function filled(client: Client, guest: Guest, key: string): Promise<OpenedWorkspace> {
  const workspace = await client.open(key, { caps: { memory_mib: guest.memory_mib } })
  if (guest.fill_mib > 0) {
    await client.tool(workspace, '/exec', { json: { argv: filler(guest.fill_mib) } })
    await client.run(workspace, ['bash', '-c', 'until [ -e /tmp/ready ]; do sleep 0.1; done'])
  }
  return workspace
}

export async function resumed(client: Client, workspace: OpenedWorkspace): Promise<void> {
  const { status, body } = await client.api<{ tool_token: { token: string } | null }>(`/v1/workspaces/${workspace.id}/resume`, {
    method: 'POST',
    headers: { prefer: 'wait=20' },
  })
  if (status !== 200 || !body.tool_token) throw new Error(`resume answered ${status}: ${JSON.stringify(body)}`)
  workspace.token = body.tool_token.token
}

async function rawCheckpoint(raw: RawSandbox, guest: Guest): Promise<string> {
  const image = path.join(raw.directory, `image-${guest.name}`)
  mkdirSync(image)
  await raw.runsc('run', '--detach', '--bundle', raw.bundle(guest.fill_mib > 0 ? filler(guest.fill_mib) : ['sleep', '100000']), 'origin')
  if (guest.fill_mib > 0) await raw.runsc('exec', 'origin', '/bin/sh', '-c', 'until [ -e /tmp/ready ]; do sleep 0.1; done')
  await raw.runsc('checkpoint', '--image-path', image, 'origin')
  await raw.runsc('delete', '--force', 'origin')
  return image
}
