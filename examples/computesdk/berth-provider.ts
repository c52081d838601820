import { Berth, NotFoundError, type Workspace } from '@berth/sdk'
import { type CommandResult, defineProvider, type RunCommandOptions } from '@computesdk/provider'

export interface BerthConfig {
  /** Absent: BERTH_URL and BERTH_API_KEY. */
  url?: string
  apiKey?: string
  /** Default template. */
  template?: string
}

const PREFIX = 'computesdk-'

/** Berth as a ComputeSDK provider. Each sandbox is a session workspace. */
export const berth = defineProvider<Workspace, BerthConfig, never, Snapshot>({
  name: 'berth',
  methods: {
    sandbox: {
      async create(config, { templateId, snapshotId, name, envs, memoryMiB, cpu } = {}) {
        const service = new Berth(config)
        const key = `${PREFIX}${name ?? crypto.randomUUID()}`
        const caps = { ...(cpu ? { cpu_millis: Math.round(cpu * 1000) } : {}), ...(memoryMiB ? { memory_mib: memoryMiB } : {}) }
        if (envs && Object.keys(envs).length > 0) throw new TypeError('Variables are given to commands: runCommand(…, { env })')
        if (snapshotId !== undefined) throw new TypeError('A snapshot is restored in its own workspace: getInstance().restore(id)')
        const template = templateId ?? config.template ?? 'base'
        const sandbox = await service.open(key, { template, lifetime: 'session', ...(Object.keys(caps).length > 0 ? { caps } : {}) })
        return { sandbox, sandboxId: sandbox.id }
      },
      async getById(config, sandboxId) {
        const sandbox = await orNull(() => new Berth(config).workspace(sandboxId))
        if (sandbox === null || !isOurs(sandbox.view)) return null
        return { sandbox, sandboxId }
      },
      async list(config) {
        const service = new Berth(config)
        const views = await service.workspaces({ key_prefix: PREFIX, lifetime: 'session' }).all()
        return Promise.all(views.map(async ({ id }) => ({ sandbox: await service.workspace(id), sandboxId: id })))
      },
      async destroy(config, sandboxId) {
        const sandbox = await orNull(() => new Berth(config).workspace(sandboxId))
        if (sandbox && isOurs(sandbox.view)) await sandbox.close()
      },
      runCommand,
      streamCommand: runCommand,
      async getInfo(sandbox) {
        const { observed_state, created_at, key, template } = await sandbox.refresh()
        const status = observed_state === 'running' ? 'running' : observed_state === 'failed' ? 'error' : 'stopped'
        const metadata = { key, template: `${template.slug}@${template.version}` }
        return { id: sandbox.id, provider: 'berth', status, createdAt: new Date(created_at), timeout: 0, metadata }
      },
      /** Returns a link that needs no other credential. */
      async getUrl(sandbox, { port, protocol = 'https' }) {
        await sandbox.ports.expose(port)
        const { url } = await sandbox.ports.link(port)
        return protocol.startsWith('ws') ? url.replace(/^http/, 'ws') : url
      },
      filesystem: {
        readFile: (sandbox, path) => sandbox.files.readText(path),
        writeFile: async (sandbox, path, content) => void (await sandbox.files.write(path, content, { create_parents: true })),
        mkdir: async (sandbox, path) => void (await sandbox.files.mkdir(path, { parents: true })),
        async readdir(sandbox, path) {
          const { entries } = await sandbox.files.list(path, { limit: 10_000 })
          return entries.map(({ name, type, size, modified_at }) => {
            const kind = type === 'directory' ? ('directory' as const) : ('file' as const)
            return { name, type: kind, size, modified: new Date(modified_at) }
          })
        },
        exists: (sandbox, path) => sandbox.files.exists(path),
        remove: (sandbox, path) => sandbox.files.remove(path, { recursive: true }),
      },
    },
    snapshot: {
      async create(config, sandboxId, { name } = {}) {
        const sandbox = await new Berth(config).workspace(sandboxId)
        const { result } = await sandbox.snapshot(name === undefined ? {} : { label: name })
        return { id: `${sandboxId}/${String(result?.['checkpoint_id'])}`, provider: 'berth', createdAt: new Date(), metadata: { name } }
      },
      async list(config) {
        const service = new Berth(config)
        const found: Snapshot[] = []
        for await (const { id } of service.workspaces({ key_prefix: PREFIX, lifetime: 'session' }))
          for await (const kept of (await service.workspace(id)).checkpoints())
            found.push({ id: `${id}/${kept.id}`, provider: 'berth', createdAt: new Date(kept.created_at), metadata: { name: kept.label } })
        return found
      },
      async delete(config, snapshotId) {
        const [workspace_id = '', checkpoint_id = ''] = snapshotId.split('/')
        await (await new Berth(config).workspace(workspace_id)).deleteCheckpoint(checkpoint_id)
      },
    },
  },
})

interface Snapshot {
  id: string
  provider: string
  createdAt: Date
  metadata?: Record<string, unknown>
}

/** Runs a command and passes its output on as it arrives. A background command returns at once with exit code 0. */
async function runCommand(sandbox: Workspace, command: string, options: RunCommandOptions = {}): Promise<CommandResult> {
  const { cwd, env, timeout, background, onStdout, onStderr } = options
  const began = performance.now()
  const asked = { ...(cwd ? { cwd } : {}), ...(env ? { env } : {}), ...(timeout ? { timeout_ms: timeout } : {}) }
  const argv = ['sh', '-c', command]
  if (background === true) {
    await sandbox.start(argv, asked)
    return { stdout: '', stderr: '', exitCode: 0, durationMs: Math.round(performance.now() - began) }
  }
  const { stdout, stderr, exitCode } = await sandbox.exec(argv, {
    ...asked,
    onOutput: ({ stream, text }) => (stream === 'stdout' ? onStdout : onStderr)?.(text),
  })
  return { stdout, stderr, exitCode: exitCode ?? 127, durationMs: Math.round(performance.now() - began) }
}

function isOurs({ key, deleted_at }: Workspace['view']): boolean {
  return key.startsWith(PREFIX) && deleted_at === null
}

async function orNull<T>(ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof NotFoundError) return null
    throw error
  }
}
