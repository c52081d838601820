import { createHash } from 'node:crypto'
import type { PtyRequest } from '../../../../contract/internal/agent-runs.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { TerminalStart } from '../../../../contract/schemas/cell/terminal.ts'
import { fail } from '../../../lib/fail.ts'
import { commandOf, type AskedCommand } from '../exec/rules.ts'

/** A placeholder: a command needs a program, and only the guest can find the user's login shell. */
const LOGIN_SHELL = ['login shell']

type AskedTerminal = Omit<PtyRequest, 'env'> & Pick<AskedCommand, 'asked_env' | 'secret_refs'>

export function terminalOf(asked: TerminalStart, session_id: string): AskedTerminal {
  const { cols = LIMITS.terminal.cols_default, rows = LIMITS.terminal.rows_default, argv, ...rest } = asked
  const command = commandOf({ ...rest, argv: argv ?? LOGIN_SHELL }, session_id)
  const { fingerprint, cwd, user, asked_env, secret_refs } = command
  return {
    session_id,
    fingerprint: fingerprintOf(fingerprint, cols, rows),
    argv: argv ?? [],
    cwd,
    user,
    asked_env,
    secret_refs,
    cols,
    rows,
  }
}

function fingerprintOf(command: string, cols: number, rows: number): string {
  return createHash('sha256')
    .update(JSON.stringify([command, cols, rows]))
    .digest('hex')
}

/** Needs no check, because the schema guarantees base64. */
export function bytesOf(data: string): Buffer {
  const bytes = Buffer.from(data, 'base64')
  const max_bytes = LIMITS.terminal.input_bytes_max
  if (bytes.length > max_bytes) throw fail('payload_too_large', null, `data is larger than ${max_bytes} bytes`, { details: { max_bytes } })
  return bytes
}
