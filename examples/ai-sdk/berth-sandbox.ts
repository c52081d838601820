import type { Command, Workspace } from '@berth/sdk'
import { NotFoundError } from '@berth/sdk'
import { type Experimental_SandboxProcess, type Experimental_SandboxSession, jsonSchema, tool } from 'ai'

const HOME = '/home/user'
const LINKS_MAX = 8
/** Limit per stream, so that a model can read it. */
const OUTPUT_CHARACTERS_MAX = 30_000

/** A workspace as the sandbox of the AI SDK: `generateText({ experimental_sandbox: berthSandbox(ws), … })`. */
export function berthSandbox(ws: Workspace): Experimental_SandboxSession {
  const read = async ({ path, abortSignal }: { path: string; abortSignal?: AbortSignal }) =>
    orNull(() => ws.files.read(absolute(path), { signal: abortSignal }))
  const write = async ({ path, content, abortSignal }: { path: string; content: Content; abortSignal?: AbortSignal }) =>
    void (await ws.files.write(absolute(path), content, { create_parents: true, signal: abortSignal }))
  const start = async ({
    command,
    workingDirectory,
    env,
    abortSignal,
    stdin = false,
  }: Parameters<Experimental_SandboxSession['spawn']>[0]) => {
    const options = {
      cwd: absolute(workingDirectory),
      signal: abortSignal,
      ...(env ? { env } : {}),
      ...(stdin ? { stdin_open: true } : {}),
    }
    return processOf(await ws.start(['sh', '-c', command], options), abortSignal)
  }
  return {
    description: `A Linux machine of its own, with a durable disk. Commands run in sh, as user, in ${HOME}.`,
    async readFile({ path, abortSignal }) {
      const place = absolute(path)
      if ((await orNull(() => ws.files.stat(place, { signal: abortSignal }))) === null) return null
      return readableOf(ws.files.stream(place, { signal: abortSignal }))
    },
    readBinaryFile: read,
    async readTextFile({ encoding = 'utf-8', startLine = 1, endLine = Infinity, ...asked }) {
      const bytes = await read(asked)
      if (bytes === null) return null
      const text = new TextDecoder(encoding).decode(bytes)
      if (startLine === 1 && endLine === Infinity) return text
      return text.split('\n').slice(startLine - 1, endLine).join('\n') // prettier-ignore
    },
    writeFile: write,
    writeBinaryFile: write,
    async writeTextFile({ encoding = 'utf-8', ...asked }) {
      if (!/^utf-?8$/i.test(encoding)) throw new TypeError(`Text is written as UTF-8, not as ${encoding}`)
      await write(asked)
    },
    stat: ({ path, abortSignal }) => orNull(() => followed(ws, absolute(path), abortSignal)),
    listDirectory: ({ path, abortSignal }) =>
      orNull(async () => {
        const { entries, truncated } = await ws.files.list(absolute(path), { limit: 10_000, signal: abortSignal })
        if (truncated) throw new RangeError(`${path} has more than 10,000 entries`)
        return entries.map(({ name, type }) => ({ name, type }))
      }),
    async deleteFile({ path, abortSignal }) {
      const found = await orNull(() => ws.files.stat(absolute(path), { signal: abortSignal }))
      if (found === null) return false
      if (found.type === 'directory') throw new TypeError(`${path} is a directory`)
      await ws.files.remove(absolute(path), { signal: abortSignal })
      return true
    },
    spawn: start as Experimental_SandboxSession['spawn'],
    async run({ command, workingDirectory, env, abortSignal }) {
      const options = { cwd: absolute(workingDirectory), signal: abortSignal, ...(env ? { env } : {}) }
      const { exitCode, stdout, stderr } = await ws.exec(['sh', '-c', command], { ...options, check: false })
      return { exitCode: exitCode ?? 127, stdout, stderr }
    },
  }
}

/** Tools for a model: commands and files of one workspace. */
export function berthTools(ws: Workspace) {
  const sandbox = berthSandbox(ws)
  const path = { type: 'string', description: `Absolute, or below ${HOME}` } as const
  return {
    run: tool({
      description: `Run a shell command. ${sandbox.description}`,
      inputSchema: jsonSchema<{ command: string }>({
        type: 'object',
        properties: { command: { type: 'string' } },
        required: ['command'],
        additionalProperties: false,
      }),
      async execute({ command }, { abortSignal }) {
        const { exitCode, stdout, stderr } = await sandbox.run({ command, ...(abortSignal ? { abortSignal } : {}) })
        return { exitCode, stdout: stdout.slice(-OUTPUT_CHARACTERS_MAX), stderr: stderr.slice(-OUTPUT_CHARACTERS_MAX) }
      },
    }),
    readFile: tool({
      description: 'Read a text file, or some of its lines',
      inputSchema: jsonSchema<{ path: string; startLine?: number; endLine?: number }>({
        type: 'object',
        properties: { path, startLine: { type: 'integer' }, endLine: { type: 'integer' } },
        required: ['path'],
        additionalProperties: false,
      }),
      execute: async (asked) => (await sandbox.readTextFile(asked))?.slice(0, OUTPUT_CHARACTERS_MAX) ?? `${asked.path} is not there`,
    }),
    writeFile: tool({
      description: 'Write a text file, in the place of what is there',
      inputSchema: jsonSchema<{ path: string; content: string }>({
        type: 'object',
        properties: { path, content: { type: 'string' } },
        required: ['path', 'content'],
        additionalProperties: false,
      }),
      execute: async (asked) => {
        await sandbox.writeTextFile(asked)
        return 'written'
      },
    }),
  }
}

type Content = string | Uint8Array | ReadableStream<Uint8Array>

function absolute(path = ''): string {
  return path.startsWith('/') ? path : `${HOME}/${path}`.replace(/\/+$/, '')
}

async function orNull<T>(ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof NotFoundError && error.reason === 'path_not_found') return null
    throw error
  }
}

async function followed(ws: Workspace, path: string, signal: AbortSignal | undefined) {
  let at = path
  for (let links = 0; links <= LINKS_MAX; links += 1) {
    const { type, size, target = '' } = await ws.files.stat(at, { signal })
    if (type !== 'symlink') return { type, size }
    at = target.startsWith('/') ? target : `${at.slice(0, at.lastIndexOf('/'))}/${target}`
  }
  throw new RangeError(`${path} leads through more than ${LINKS_MAX} links`)
}

function processOf(
  command: Command,
  abortSignal: AbortSignal | undefined,
): Experimental_SandboxProcess & { stdin: WritableStream<Uint8Array> } {
  const kill = async () => void (await command.cancel())
  abortSignal?.addEventListener('abort', () => void kill().catch(() => undefined), { once: true }) // it may have ended
  const ended = async () => {
    // Drains the output, so that the command ends without a reader. An abort throws its reason here.
    for await (const _ of command.output({ signal: abortSignal }));
    const { exit_code } = await command.status()
    return { exitCode: exit_code ?? 127 }
  }
  return {
    stdout: readableOf(only(command, 'stdout')),
    stderr: readableOf(only(command, 'stderr')),
    stdin: new WritableStream({ write: (bytes) => command.write(bytes), close: () => command.end(), abort: () => command.end() }),
    wait: ended,
    kill,
  }
}

/** Each stream is read separately and at its reader's speed; offsets make repeated reads cheap. */
async function* only(command: Command, stream: 'stdout' | 'stderr'): AsyncGenerator<Uint8Array> {
  for await (const chunk of command.output()) if (chunk.stream === stream) yield chunk.bytes
}

function readableOf(bytes: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const next = await bytes.next()
      if (next.done === true) controller.close()
      else controller.enqueue(next.value)
    },
    cancel: async () => void (await bytes.return(undefined)),
  })
}
