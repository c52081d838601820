import type { Terminal, Workspace } from '../../sdk/typescript/src/main.ts'
import type { Run } from './command.ts'
import { exitCodeOf, terminalSize, terminalEnv, writeFully } from './ending.ts'

/** Ctrl-] detaches from the terminal. The terminal keeps running. */
const LEAVE = 0x1d

export const shell: Run = async (context, [name = '']) => {
  const ws = await context.workspace(name)
  const { id } = context.flags
  const argv = context.rest.length > 0 ? { argv: [...context.rest] } : {}
  const session = typeof id === 'string' ? { session_id: id } : {}
  const known = typeof id === 'string' ? await found(ws, id) : null
  const terminal = known ?? (await ws.shell({ ...argv, ...session, ...terminalSize(), env: terminalEnv() }))
  return relayTerminal(terminal, () => context.say(`It goes on. Come back with: berth shell ${name} --id ${terminal.id}`))
}

/** The service would refuse another size or TERM for an existing id. */
async function found(ws: Workspace, id: string): Promise<Terminal | null> {
  const terminal = ws.terminal(id)
  try {
    await terminal.status()
    return terminal
  } catch (error) {
    if ((error as { code?: unknown }).code === 'not_found') return null
    throw error
  }
}

export async function relayTerminal(terminal: Terminal, left?: () => void): Promise<number> {
  const { stdin } = process
  const resize = () => {
    const { cols, rows } = terminalSize()
    if (cols && rows) terminal.resize({ cols, rows })
  }
  let is_left = false as boolean
  const typed = (bytes: Buffer) => {
    if (left && stdin.isTTY && bytes.includes(LEAVE)) {
      is_left = true
      terminal.detach()
    } else terminal.write(bytes)
  }
  const ended = () => terminal.write('\u0004')
  if (stdin.isTTY) stdin.setRawMode(true)
  stdin.on('data', typed).on('end', ended).resume()
  process.on('SIGWINCH', resize)
  resize()
  try {
    for await (const { bytes } of terminal) await writeFully(process.stdout, bytes)
  } finally {
    if (stdin.isTTY) stdin.setRawMode(false)
    process.off('SIGWINCH', resize)
    stdin.off('data', typed).off('end', ended).pause()
  }
  if (is_left) left?.()
  const { ending } = terminal
  return ending === null ? 0 : exitCodeOf(ending)
}
