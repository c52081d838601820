import { BerthError } from '../../sdk/typescript/src/main.ts'
import { Budget, Refusal, type ToolSet } from './mcp-budget.ts'
import { McpServer, z } from './mcp-library.ts'

/** What one result carries; the rest is read on from an offset. */
const CHARACTERS_MAX = 20_000
const EXEC_SECONDS = 120
/** Of a command that still runs, for its end. */
const READ_MS = 60_000

interface Result {
  [name: string]: unknown
  content: ({ type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string })[]
  isError?: boolean
}

const workspace = z.string().min(1).describe('Name of the workspace')
const path = z.string().startsWith('/').describe('Absolute path')
const offset = z.number().int().min(0).optional().describe('From this byte on')

/** One server for one connection. The budget is everybody's. */
export function createMcpServer(budget: Budget, version: string): McpServer {
  const server = new McpServer({ name: 'berth', version })
  const tool = <Shape extends z.ZodRawShape>(
    set: ToolSet,
    name: string,
    description: string,
    shape: Shape,
    run: (asked: z.infer<z.ZodObject<Shape>>) => Promise<Result>,
  ) => {
    if (!budget.bounds.tools.includes(set)) return
    const answered = async (asked: unknown): Promise<Result> => {
      try {
        budget.spendCall()
        return await run(asked as z.infer<z.ZodObject<Shape>>)
      } catch (error) {
        return failed(error)
      }
    }
    server.registerTool(name, { description, inputSchema: z.object(shape) }, answered as never)
  }

  tool(
    'lifecycle',
    'open',
    'Open a workspace: an isolated Linux machine of its own. It is made on first use, and goes on where it was afterwards.',
    { workspace },
    async (asked) => {
      const { view } = await budget.open(asked.workspace)
      return said({ workspace: asked.workspace, state: view.observed_state, mode: view.mode })
    },
  )
  tool(
    'lifecycle',
    'fork',
    'Copy a workspace, with its files, memory and processes, under another name.',
    { workspace, to: z.string().min(1) },
    async (asked) => {
      await budget.fork(asked.workspace, asked.to)
      return said({ workspace: asked.to })
    },
  )
  tool(
    'lifecycle',
    'snapshot',
    'Keep a workspace as it is now, to come back to it with restore.',
    { workspace, label: z.string().max(200).optional() },
    async (asked) => {
      const { result } = await (await budget.find(asked.workspace)).snapshot(asked.label === undefined ? {} : { label: asked.label })
      return said(result)
    },
  )
  tool('lifecycle', 'restore', 'Bring a snapshot back.', { workspace, checkpoint_id: z.string() }, async (asked) => {
    await (await budget.find(asked.workspace)).restore(asked.checkpoint_id)
    return said({ restored: asked.checkpoint_id })
  })

  tool(
    'exec',
    'exec',
    'Run a command, without a shell: use ["bash", "-c", …] for one. Output that is cut is read on with exec_output.',
    {
      workspace,
      argv: z.array(z.string()).min(1),
      cwd: z.string().optional(),
      stdin: z.string().optional(),
      timeout_seconds: z.number().int().min(1).max(3600).optional(),
    },
    async ({ workspace: name, argv, timeout_seconds = EXEC_SECONDS, ...rest }) => {
      const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
      const { id, state, exitCode, termSignal, timedOut, error, stdout, stderr } = await (
        await budget.open(name)
      ).exec(argv, { ...given, timeout_ms: timeout_seconds * 1000, check: false })
      return said({
        id,
        state,
        exit_code: exitCode,
        term_signal: termSignal,
        timed_out: timedOut,
        error,
        stdout: shortened(stdout),
        stderr: shortened(stderr),
      })
    },
  )
  tool(
    'exec',
    'exec_output',
    'Read on what a command wrote.',
    { workspace, id: z.string(), stream: z.enum(['stdout', 'stderr']), offset },
    async (asked) => {
      const command = (await budget.find(asked.workspace)).command(asked.id)
      const from = asked.offset ?? 0
      const result = await command.result(
        asked.stream === 'stdout' ? { stdout_offset: from, waitMs: READ_MS } : { stderr_offset: from, waitMs: READ_MS },
      )
      return said(shortened(result[asked.stream], from))
    },
  )

  tool('files', 'read_file', 'Read a file of text.', { workspace, path, offset }, async (asked) => {
    const from = asked.offset ?? 0
    const bytes = await (await budget.find(asked.workspace)).files.read(asked.path, { offset: from, length: CHARACTERS_MAX })
    const text = new TextDecoder().decode(bytes)
    return said({ text, offset: from, ...(bytes.length === CHARACTERS_MAX ? { next_offset: from + bytes.length } : {}) })
  })
  tool('files', 'write_file', 'Write a file, whole.', { workspace, path, content: z.string() }, async (asked) =>
    said(await (await budget.open(asked.workspace)).files.write(asked.path, asked.content, { create_parents: true })),
  )
  const edits = z.array(z.object({ old_text: z.string(), new_text: z.string(), replace_all: z.boolean().optional() })).min(1)
  tool(
    'files',
    'patch_file',
    'Change a file by edits: each old_text occurs exactly once. All of them, or none.',
    { workspace, path, edits },
    async (asked) => {
      const { revision, replacements } = await (await budget.find(asked.workspace)).files.patch(asked.path, { edits: asked.edits as never })
      return said({ revision, replacements })
    },
  )
  tool(
    'files',
    'search_files',
    'Find lines in files.',
    { workspace, path, pattern: z.string(), regex: z.boolean().optional() },
    async (asked) => {
      const { matches, truncated } = await (
        await budget.find(asked.workspace)
      ).files.search({ path: asked.path, pattern: asked.pattern, regex: asked.regex ?? false, max_matches: 100 })
      return said({ matches: matches.map(({ path: at, line, text }) => `${at}:${line}: ${text.slice(0, 200)}`), truncated })
    },
  )
  tool('files', 'list_files', 'What a folder holds.', { workspace, path }, async (asked) => {
    const { entries, truncated } = await (await budget.find(asked.workspace)).files.list(asked.path, { limit: 500 })
    return said({ entries: entries.map(({ name, type, size }) => ({ name, type, size })), truncated })
  })

  tool(
    'terminal',
    'terminal',
    'Type into a terminal that stays, and see what it shows. Without input: only see.',
    { workspace, id: z.string().optional(), input: z.string().optional(), offset, wait_seconds: z.number().min(0).max(30).optional() },
    async (asked) => {
      const ws = await budget.open(asked.workspace)
      const shell = await ws.shell({ session_id: asked.id ?? 'mcp', offset: asked.offset ?? 0, cols: 120, rows: 40 })
      if (asked.input !== undefined) shell.write(asked.input)
      const timer = setTimeout(() => shell.detach(), (asked.wait_seconds ?? 2) * 1000)
      let text = ''
      let next = asked.offset ?? 0
      for await (const chunk of shell) {
        text += chunk.text
        next = chunk.offset + chunk.bytes.length
        if (text.length > CHARACTERS_MAX) break
      }
      clearTimeout(timer)
      shell.detach()
      return said({ id: shell.id, text, next_offset: next, ended: shell.ending !== null })
    },
  )

  const url = z.url()
  tool('browser', 'browse', 'Read a page as text, in the browser of the workspace.', { workspace, url }, async (asked) =>
    said(shortened(await (await budget.open(asked.workspace)).browser.content({ url: asked.url, format: 'text' }))),
  )
  tool('browser', 'screenshot', 'See a page.', { workspace, url }, async (asked) => {
    const png = await (await budget.open(asked.workspace)).browser.screenshot({ url: asked.url })
    return { content: [{ type: 'image', data: Buffer.from(png).toString('base64'), mimeType: 'image/png' }] }
  })
  tool(
    'ports',
    'expose_port',
    'A private link to what listens on a port of the workspace, good for an hour.',
    { workspace, port: z.number().int().min(1).max(65_535) },
    async (asked) => {
      const { ports } = await budget.find(asked.workspace)
      await ports.expose(asked.port)
      const link = await ports.link(asked.port, { ttl_seconds: 3600 })
      return said({ url: link.url, expires_at: link.expires_at })
    },
  )
  return server
}

function said(value: unknown): Result {
  return { content: [{ type: 'text', text: JSON.stringify(value, null, 1) }] }
}

/** A refusal is a result: the model reads it and does something else. */
function failed(error: unknown): Result {
  if (error instanceof BerthError) {
    const { code, reason, message, retryable } = error
    return { ...said({ code, reason, message, retryable }), isError: true }
  }
  if (error instanceof Refusal) return { ...said({ message: error.message }), isError: true }
  throw error
}

/** Where text is cut, the offset in bytes at which it goes on. */
function shortened(text: string, from = 0): { text: string; next_offset?: number } {
  if (text.length <= CHARACTERS_MAX) return { text }
  // Not in the middle of a character that has two halves.
  const at = /[\uD800-\uDBFF]/.test(text[CHARACTERS_MAX - 1] ?? '') ? CHARACTERS_MAX - 1 : CHARACTERS_MAX
  const shown = text.slice(0, at)
  return { text: shown, next_offset: from + Buffer.byteLength(shown) }
}
