import type { Terminal } from '../../sdk/typescript/src/main.ts'
import type { Run } from './command.ts'
import { exitCodeOf, sizeOf, written } from './ending.ts'

/** Ctrl-] leaves a terminal, which goes on. */
const LEAVE = 0x1d

export const shell: Run = async (context, [name = '']) => {
  const ws = await context.workspace(name)
  const { id } = context.flags
  const argv = context.rest.length > 0 ? { argv: [...context.rest] } : {}
  const session = typeof id === 'string' ? { session_id: id } : {}
  const terminal = await ws.shell({ ...argv, ...session, ...sizeOf(), env: { TERM: process.env['TERM'] ?? 'xterm-256color' } })
  return carryTerminal(terminal, () => context.say(`It goes on. Come back with: berth shell ${name} --id ${terminal.id}`))
}

/** Joins a terminal here with one there. @returns the exit code; 0 where it was left open */
export async function carryTerminal(terminal: Terminal, left?: () => void): Promise<number> {
  const { stdin } = process
  const resize = () => {
    const { cols, rows } = sizeOf()
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
    for await (const { bytes } of terminal) await written(process.stdout, bytes)
  } finally {
    if (stdin.isTTY) stdin.setRawMode(false)
    process.off('SIGWINCH', resize)
    stdin.off('data', typed).off('end', ended).pause()
  }
  if (is_left) left?.()
  const { ending } = terminal
  return ending === null ? 0 : exitCodeOf(ending)
}
