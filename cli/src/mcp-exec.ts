import { type Command, type CommandLine, DeadlineError, type Workspace } from '../../sdk/typescript/src/main.ts'
import { Refusal } from './mcp-budget.ts'
import { z } from './mcp-library.ts'
import { offset, resultOf, outputOf, shownShape, type Tool, tool, workspace } from './mcp-tool.ts'

/** MCP clients time out after 60 seconds and would then lose the command's id, so waits are shorter. */
const WAIT_SECONDS_MAX = 50
const WAIT_SECONDS = 30
const TIMEOUT_SECONDS = 3600
const COMMANDS_MAX = 50

const waitSeconds = z
  .number()
  .min(0)
  .max(WAIT_SECONDS_MAX)
  .optional()
  .describe(`Waits so long for the end: ${WAIT_SECONDS} where it is absent, ${WAIT_SECONDS_MAX} at most`)
const id = z.string().describe('Id of the command, as exec or list_commands has said it')

const ENDING = {
  id: z.string(),
  state: z.string().describe('running, exited, failed_to_start or lost'),
  exit_code: z.number().nullable(),
  term_signal: z.string().nullable(),
  timed_out: z.boolean(),
  reason: z.string().nullable().describe('out_of_memory or process_limit, where that ended it'),
  error: z.string().nullable(),
  stdout: shownShape,
  stderr: shownShape,
  hint: z.string().optional(),
}

export const EXEC_TOOLS: Tool[] = [
  tool(
    {
      set: 'exec',
      name: 'exec',
      title: 'Run a command',
      description:
        'Run a command: `command` is a line for bash, `argv` a program with its arguments. What runs longer than `wait_seconds` goes on in the background: read it with exec_output, end it with exec_signal.',
      input: {
        workspace,
        command: z.string().min(1).optional().describe('A line for bash -lc; or give argv'),
        argv: z.array(z.string()).min(1).optional().describe('The program and its arguments, without a shell'),
        cwd: z.string().optional().describe('Directory; /home/user where it is absent'),
        stdin: z.string().optional().describe('Standard input, whole'),
        timeout_seconds: z
          .number()
          .int()
          .min(1)
          .max(86_400)
          .optional()
          .describe(`Ends the command after so long; ${TIMEOUT_SECONDS} where absent`),
        wait_seconds: waitSeconds,
        background: z.boolean().optional().describe('true: returns at once'),
      },
      output: ENDING,
      effect: 'changes',
    },
    async (
      budget,
      { workspace: name, command, argv, timeout_seconds = TIMEOUT_SECONDS, wait_seconds = WAIT_SECONDS, background, ...rest },
    ) => {
      if ((command === undefined) === (argv === undefined)) throw new Refusal('Give either `command` or `argv`')
      const line: CommandLine = command ?? argv ?? []
      const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
      const options = { ...given, timeout_ms: timeout_seconds * 1000 }
      const ws = await budget.open(name)
      const wait_ms = background === true ? 0 : wait_seconds * 1000
      if (ws.view.mode === 'file_first') return resultOf(await executed(ws, line, options, wait_ms))
      return resultOf(await ending(await ws.start(line, options), wait_ms))
    },
  ),
  tool(
    {
      set: 'exec',
      name: 'exec_output',
      title: 'Read the output of a command',
      description: 'Read what a command wrote, from an offset of one stream, and how it ended. It waits for the end for wait_seconds.',
      input: {
        workspace,
        id,
        stream: z.enum(['stdout', 'stderr']).optional().describe('stdout where it is absent'),
        offset,
        wait_seconds: waitSeconds,
      },
      output: { id: z.string(), state: z.string(), exit_code: z.number().nullable(), output: shownShape },
      effect: 'reads',
    },
    async (budget, { workspace: name, id: command_id, stream = 'stdout', offset: from = 0, wait_seconds = WAIT_SECONDS }) => {
      const ws = await budget.find(name)
      if (ws.view.mode === 'file_first') {
        const { state, exit_code, ...record } = await ws.execution(command_id)
        const output = Buffer.from(record[stream], 'base64').subarray(from).toString()
        return resultOf({ id: command_id, state, exit_code, output: outputOf(output, from) })
      }
      const command = ws.command(command_id)
      const at = stream === 'stdout' ? { stdout_offset: from } : { stderr_offset: from }
      const { state, exit_code, ...output } = await ending(command, wait_seconds * 1000, at)
      return resultOf({ id: command_id, state, exit_code, output: output[stream] })
    },
  ),
  tool(
    {
      set: 'exec',
      name: 'exec_signal',
      title: 'Signal a command',
      description: 'Send a signal to a command and to all that it started: SIGINT as Ctrl-C, SIGTERM, or SIGKILL.',
      input: { workspace, id, signal: z.enum(['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGHUP']) },
      output: { id: z.string(), state: z.string() },
      effect: 'destroys',
    },
    async (budget, { workspace: name, id: command_id, signal }) => {
      const { state } = await (await budget.find(name)).command(command_id).signal(signal)
      return resultOf({ id: command_id, state })
    },
  ),
  tool(
    {
      set: 'exec',
      name: 'list_commands',
      title: 'List commands',
      description: 'The commands that were run in a workspace, the newest first, with the ids that exec_output and exec_signal take.',
      input: { workspace, state: z.enum(['running', 'ended']).optional().describe('Both where it is absent') },
      output: {
        commands: z.array(
          z.object({
            id: z.string(),
            command: z.string().nullable(),
            state: z.string(),
            exit_code: z.number().nullable(),
            started_at: z.string().nullable(),
            ended_at: z.string().nullable(),
          }),
        ),
        more: z.boolean().describe('There are older ones'),
      },
      effect: 'reads',
    },
    async (budget, { workspace: name, state }) => {
      const ws = await budget.find(name)
      const query = { limit: COMMANDS_MAX, ...(state === undefined ? {} : { state }) }
      if (ws.view.mode === 'file_first') {
        const { data, next_cursor } = await ws.executions(query).page()
        const commands = data.map(({ execution_id, argv, exit_code, created_at: started_at, finished_at: ended_at, ...row }) => ({
          id: execution_id,
          command: argv?.join(' ') ?? null,
          state: row.state,
          exit_code,
          started_at,
          ended_at,
        }))
        return resultOf({ commands, more: next_cursor !== null })
      }
      const { data, next_cursor } = await ws.commands(query).page()
      const commands = data.map(({ session_id, argv, state: how, exit_code, started_at, ended_at }) => ({
        id: session_id,
        command: argv.join(' '),
        state: how,
        exit_code,
        started_at,
        ended_at,
      }))
      return resultOf({ commands, more: next_cursor !== null })
    },
  ),
  tool(
    {
      set: 'exec',
      name: 'list_processes',
      title: 'List processes',
      description: 'The processes of a workspace.',
      input: { workspace },
      output: { processes: z.array(z.object({ pid: z.number(), user: z.string(), command: z.string() })) },
      effect: 'reads',
    },
    async (budget, { workspace: name }) => {
      const { processes } = await (await budget.find(name)).processes.list({ limit: 200 })
      return resultOf({
        processes: processes.map(({ pid, user, name: program, command }) => ({ pid, user, command: command.join(' ') || program })),
      })
    },
  ),
]

async function ending(command: Command, wait_ms: number, from: { stdout_offset?: number; stderr_offset?: number } = {}) {
  const at = { stdout: from.stdout_offset ?? 0, stderr: from.stderr_offset ?? 0 }
  try {
    if (wait_ms > 0 || command.ending !== null) {
      const result = await command.result({ ...from, waitMs: Math.max(wait_ms, 1000), check: false })
      return {
        id: command.id,
        state: result.state,
        exit_code: result.exitCode,
        term_signal: result.termSignal,
        timed_out: result.timedOut,
        reason: result.reason,
        error: result.error,
        stdout: outputOf(result.stdout, at.stdout),
        stderr: outputOf(result.stderr, at.stderr),
      }
    }
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
  }
  const text = { stdout: '', stderr: '' }
  for await (const chunk of command.output({ ...from, follow: false })) text[chunk.stream] += chunk.text
  return { ...RUNNING, id: command.id, stdout: outputOf(text.stdout, at.stdout), stderr: outputOf(text.stderr, at.stderr) }
}

const RUNNING = {
  state: 'running',
  exit_code: null,
  term_signal: null,
  timed_out: false,
  reason: null,
  error: null,
  hint: 'It goes on in the background: exec_output reads on, exec_signal ends it',
}

/** A file-first workspace returns output only when the command has ended. */
async function executed(ws: Workspace, line: CommandLine, options: object, wait_ms: number) {
  const execution_id = `mcp-${crypto.randomUUID()}`
  try {
    const result = await ws.exec(line, { ...options, execution_id, check: false, waitMs: Math.max(wait_ms, 1000) })
    const { state, exitCode: exit_code, termSignal: term_signal, timedOut: timed_out, reason, error, stdout, stderr } = result
    return { id: execution_id, state, exit_code, term_signal, timed_out, reason, error, stdout: outputOf(stdout), stderr: outputOf(stderr) }
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
    return { ...RUNNING, id: execution_id, stdout: outputOf(''), stderr: outputOf('') }
  }
}
