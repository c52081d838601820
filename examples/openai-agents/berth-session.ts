import type { Command, Terminal, Workspace } from '@berth/sdk'
import { applyDiff, type ApplyPatchOperation, type Editor } from '@openai/agents'
import { type ExecCommandArgs, Manifest, type SandboxSession, type SandboxSessionState } from '@openai/agents/sandbox'

const ROOT = '/home/user'
const YIELD_MS = 10_000
const POLL_MS = 250
/** A rough average. */
const CHARACTERS_A_TOKEN = 4
const OUTPUT_CHARACTERS_MAX = 60_000
const IMAGE_BYTES_MAX = 10 << 20

/** Supported parts of SandboxSession, required here so that callers need no `?.` */
export type BerthSession = Required<
  Pick<
    SandboxSession,
    | 'state' | 'running' | 'exec' | 'execCommand' | 'writeStdin' | 'supportsPty' | 'createEditor' | 'readFile' | 'viewImage'
    | 'listDir' | 'pathExists' | 'directoryExists' | 'resolveExposedPort'
  >
> // prettier-ignore

/** A workspace as the sandbox of an agent: `run(agent, input, { sandbox: { session: berthSession(ws) } })`. */
export function berthSession(ws: Workspace): BerthSession {
  const running = new Map<number, Running>()
  const state: SandboxSessionState = { manifest: new Manifest({ root: ROOT }), workspaceReady: true }
  const shown = async (args: ExecCommandArgs) => {
    const run = await begin(ws, args)
    const id = running.size + 1
    running.set(id, run)
    await run.endedWithin(args.yieldTimeMs ?? YIELD_MS)
    return { id, run, ...run.taken(args.maxOutputTokens) }
  }
  return {
    state,
    running: async () => (await ws.refresh()).observed_state === 'running',
    supportsPty: () => true,
    async exec(args) {
      const { id, run, stdout, stderr } = await shown(args)
      const output = stdout + stderr
      const ending = run.is_over ? { exitCode: run.exit_code } : { sessionId: id }
      return { output, stdout, stderr, wallTimeSeconds: run.seconds(), ...ending }
    },
    async execCommand(args) {
      const { id, run, stdout, stderr } = await shown(args)
      return told(run, id, stdout + stderr)
    },
    async writeStdin({ sessionId, chars = '', yieldTimeMs, maxOutputTokens }) {
      const run = running.get(sessionId)
      if (!run) throw new TypeError(`There is no session ${sessionId}`)
      await run.write(chars)
      await run.endedWithin(yieldTimeMs ?? POLL_MS)
      const { stdout, stderr } = run.taken(maxOutputTokens)
      return told(run, sessionId, stdout + stderr)
    },
    createEditor: () => editorOf(ws),
    async readFile({ path, maxBytes }) {
      return ws.files.read(absolute(path), maxBytes === undefined ? {} : { length: maxBytes })
    },
    async viewImage({ path }) {
      const data = await ws.files.read(absolute(path), { length: IMAGE_BYTES_MAX + 1 })
      if (data.length > IMAGE_BYTES_MAX) throw new RangeError(`${path} is larger than ${IMAGE_BYTES_MAX} bytes`)
      return { type: 'image', image: { data, mediaType: mediaTypeOf(data) } }
    },
    async listDir({ path }) {
      const { entries } = await ws.files.list(absolute(path), { limit: 10_000 })
      return entries.map(({ name, path: at, type }) => {
        const kind = type === 'directory' ? ('dir' as const) : type === 'file' ? ('file' as const) : ('other' as const)
        return { name, path: at, type: kind }
      })
    },
    pathExists: (path) => ws.files.exists(absolute(path)),
    async directoryExists(path) {
      const place = absolute(path)
      return (await ws.files.exists(place)) && (await ws.files.stat(place)).type === 'directory'
    },
    /** Returns a link that needs no other credential. */
    async resolveExposedPort(port) {
      await ws.ports.expose(port)
      const { url } = await ws.ports.link(port)
      const { hostname, port: at, protocol } = new URL(url)
      const tls = protocol === 'https:'
      return { host: hostname, port: Number(at || (tls ? 443 : 80)), tls, url }
    },
  }
}

class Running {
  exit_code: number | null = null
  is_over = false
  readonly #began = performance.now()
  readonly #source: Command | Terminal
  readonly #text = { stdout: '', stderr: '' }
  readonly #over: Promise<void>

  constructor(source: Command | Terminal) {
    this.#source = source
    this.#over = this.#read()
    this.#over.catch(() => undefined) // the next call reports the error
  }

  seconds(): number {
    return (performance.now() - this.#began) / 1000
  }

  async endedWithin(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const waited = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))
    await Promise.race([this.#over, waited]).finally(() => clearTimeout(timer))
  }

  async write(chars: string): Promise<void> {
    if (chars !== '') await this.#source.write(chars)
  }

  /** Output since the last call, cut to its end. */
  taken(tokens_max: number | undefined): { stdout: string; stderr: string } {
    const most = Math.min(OUTPUT_CHARACTERS_MAX, (tokens_max ?? Infinity) * CHARACTERS_A_TOKEN)
    const { stdout, stderr } = this.#text
    Object.assign(this.#text, { stdout: '', stderr: '' })
    return { stdout: stdout.slice(-most), stderr: stderr.slice(-most) }
  }

  async #read(): Promise<void> {
    for await (const chunk of this.#source) {
      const stream = 'stream' in chunk ? chunk.stream : 'stdout'
      this.#text[stream] = `${this.#text[stream]}${chunk.text}`.slice(-OUTPUT_CHARACTERS_MAX)
    }
    const { exit_code } = await this.#source.status()
    this.exit_code = exit_code
    this.is_over = true
  }
}

async function begin(ws: Workspace, { cmd, workdir, shell = 'bash', login = true, tty = false, runAs }: ExecCommandArgs): Promise<Running> {
  const argv = [shell, login ? '-lc' : '-c', cmd]
  const options = { cwd: absolute(workdir), ...(runAs === undefined ? {} : { user: runAs }) }
  return new Running(tty ? await ws.shell({ argv, ...options }) : await ws.start(argv, { ...options, stdin_open: true }))
}

function told(run: Running, id: number, output: string): string {
  const how = run.is_over ? `Process exited with code ${run.exit_code ?? 'unknown'}` : `Process running with session ID ${id}`
  return [`Wall time: ${run.seconds().toFixed(4)} seconds`, how, 'Output:', output].join('\n')
}

function editorOf(ws: Workspace): Editor {
  const of =
    <T extends ApplyPatchOperation>(work: (operation: T) => Promise<void>) =>
    async (operation: T) => {
      try {
        await work(operation)
        return { status: 'completed' as const }
      } catch (error) {
        return { status: 'failed' as const, output: error instanceof Error ? error.message : String(error) }
      }
    }
  return {
    createFile: of(async ({ path, diff }) => {
      await ws.files.write(absolute(path), applyDiff('', diff, 'create'), { create_parents: true })
    }),
    updateFile: of(async ({ path, diff, ...more }) => {
      const place = absolute(path)
      await ws.files.write(place, applyDiff(await ws.files.readText(place), diff))
      const { moveTo } = more as { moveTo?: string }
      if (moveTo !== undefined) await ws.files.move(place, absolute(moveTo))
    }),
    deleteFile: of(({ path }) => ws.files.remove(absolute(path))),
  }
}

function absolute(path = ''): string {
  return path.startsWith('/') ? path : `${ROOT}/${path.replace(/^\.\/?/, '')}`.replace(/\/+$/, '')
}

function mediaTypeOf([first, second]: Uint8Array): string {
  if (first === 0x89) return 'image/png'
  if (first === 0xff) return 'image/jpeg'
  return first === 0x47 ? 'image/gif' : second === 0x49 ? 'image/webp' : 'application/octet-stream'
}
