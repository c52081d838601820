import { z } from './mcp-library.ts'
import { CHARACTERS_MAX, offset, resultOf, outputOf, shownShape, type Tool, tool, workspace } from './mcp-tool.ts'
import { terminalText } from './terminal-text.ts'

const TERMINAL_SECONDS = 2
const TERMINAL_SECONDS_MAX = 30
const LINK_SECONDS = 3600

const url = z.url()

export function deskTools(): Tool[] {
  return [terminalTool(), ...BROWSER_TOOLS, LINK_TOOL]
}

function terminalTool(): Tool {
  /** Offset of each terminal, used if a call names none. */
  const read_to = new Map<string, number>()
  return tool(
    {
      set: 'terminal',
      name: 'terminal',
      title: 'Use a terminal',
      description:
        'Type into a terminal that stays, and see what it shows since the last call. Without input: only see. A line is run by a newline at its end; \\u0003 is Ctrl-C.',
      input: {
        workspace,
        id: z.string().optional().describe('Name of the terminal; `mcp` where it is absent'),
        input: z.string().optional().describe('Typed as it is'),
        offset,
        wait_seconds: z.number().min(0).max(TERMINAL_SECONDS_MAX).optional().describe(`Watches so long; ${TERMINAL_SECONDS} where absent`),
      },
      output: { id: z.string(), text: z.string(), next_offset: z.number(), ended: z.boolean() },
      effect: 'changes',
    },
    async (budget, asked) => {
      const ws = await budget.open(asked.workspace)
      const id = asked.id ?? 'mcp'
      const known = `${ws.id} ${id}`
      const from = asked.offset ?? read_to.get(known) ?? 0
      const shell = await ws.shell({ session_id: id, offset: from, cols: 120, rows: 40 })
      if (asked.input !== undefined) shell.write(asked.input)
      const timer = setTimeout(() => shell.detach(), (asked.wait_seconds ?? TERMINAL_SECONDS) * 1000)
      let [text, next_offset] = ['', from]
      for await (const chunk of shell) {
        text += chunk.text
        next_offset = chunk.offset + chunk.bytes.length
        if (text.length > CHARACTERS_MAX) break
      }
      clearTimeout(timer)
      shell.detach()
      read_to.set(known, next_offset)
      return resultOf({ id: shell.id, text: terminalText(text), next_offset, ended: shell.ending !== null })
    },
  )
}

const BROWSER_TOOLS: readonly Tool[] = [
  tool(
    {
      set: 'browser',
      name: 'browse',
      title: 'Read a page',
      description: 'Read a page as text, in the browser of the workspace.',
      input: { workspace, url },
      output: { page: shownShape },
      effect: 'reads',
    },
    async (budget, asked) => {
      const page = await (await budget.open(asked.workspace)).browser.content({ url: asked.url, format: 'text' })
      return resultOf({ page: outputOf(page) })
    },
  ),
  tool(
    {
      set: 'browser',
      name: 'screenshot',
      title: 'See a page',
      description: 'See a page, in the browser of the workspace.',
      input: { workspace, url },
      effect: 'reads',
    },
    async (budget, asked) => {
      const png = await (await budget.open(asked.workspace)).browser.screenshot({ url: asked.url })
      return { content: [{ type: 'image', data: Buffer.from(png).toString('base64'), mimeType: 'image/png' }] }
    },
  ),
]

const LINK_TOOL: Tool = tool(
  {
    set: 'ports',
    name: 'expose_port',
    title: 'Link to a port',
    description: 'A private link to a server in the workspace, good for an hour. The server has to listen on 0.0.0.0, not on 127.0.0.1.',
    input: { workspace, port: z.number().int().min(1).max(65_535) },
    output: { url: z.string(), expires_at: z.string() },
    effect: 'changes',
  },
  async (budget, asked) => {
    const { ports } = await budget.find(asked.workspace)
    await ports.expose(asked.port)
    const link = await ports.link(asked.port, { ttl_seconds: LINK_SECONDS })
    return resultOf({ url: link.url, expires_at: link.expires_at })
  },
)
