import { BerthError } from '../../sdk/typescript/src/main.ts'
import { Budget, Refusal } from './mcp-budget.ts'
import { deskTools } from './mcp-desk.ts'
import { EXEC_TOOLS } from './mcp-exec.ts'
import { FILE_TOOLS } from './mcp-files.ts'
import { McpServer, z } from './mcp-library.ts'
import { LIFECYCLE_TOOLS } from './mcp-lifecycle.ts'
import { type Result, resultOf, type Tool } from './mcp-tool.ts'

const INSTRUCTIONS = `Workspaces are isolated Linux machines (Debian) that keep their files, memory and processes. Choose a name: the first call makes the workspace, later calls find it as it was.
You are \`user\` with the home directory /home/user, and sudo needs no password. Python 3, Node.js and git are installed in the usual templates. Whether the internet is reached depends on the policy of the workspace.
A command that runs longer than its wait_seconds goes on in the background: exec_output reads on, exec_signal ends it. Use a terminal only for programs that ask questions.`

/** All connections use the same budget. */
export function createMcpServer(budget: Budget, version: string): McpServer {
  const server = new McpServer({ name: 'berth', version }, { instructions: INSTRUCTIONS })
  const tools = [...LIFECYCLE_TOOLS, ...EXEC_TOOLS, ...FILE_TOOLS, ...deskTools()]
  for (const tool of tools.filter(({ set }) => budget.bounds.tools.includes(set))) register(server, budget, tool)
  return server
}

function register(server: McpServer, budget: Budget, { name, title, description, input, output, effect, run }: Tool): void {
  const answered = async (asked: unknown): Promise<Result> => {
    try {
      budget.spendCall()
      return await run(budget, asked as never)
    } catch (error) {
      return failed(error)
    }
  }
  const annotations = { title, readOnlyHint: effect === 'reads', destructiveHint: effect === 'destroys', openWorldHint: false }
  const described = { title, description, annotations, inputSchema: z.object(input) }
  server.registerTool(name, { ...described, ...(output ? { outputSchema: z.object(output) } : {}) }, answered as never)
}

/** The model can read a refusal in a result and react. */
function failed(error: unknown): Result {
  if (error instanceof BerthError) {
    const { code, reason, message, retryable } = error
    return { content: resultOf({ code, reason, message, retryable }).content, isError: true }
  }
  if (error instanceof Refusal) return { content: resultOf({ message: error.message }).content, isError: true }
  throw error
}
