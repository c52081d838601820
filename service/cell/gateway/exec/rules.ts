import { createHash } from 'node:crypto'
import type { ExecRequest } from '../../../../contract/internal/agent-runs.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { DEFAULT_CWD, DEFAULT_USER, type ExecStart, RESERVED_SESSION_PREFIX } from '../../../../contract/schemas/cell/session.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { environmentWith, type WorkspaceEnvironment } from '../environment.ts'
import type { GivenVariables } from '../secret-variables.ts'

/** Contains no values of secrets. */
export type AskedCommand = Omit<ExecRequest, 'env'> & { asked_env: Readonly<Record<string, string>>; secret_refs: readonly string[] }

export function commandOf(asked: ExecStart, session_id: string): AskedCommand {
  refuseUnavailable(asked, session_id)
  return plainCommandOf(asked, session_id)
}

export function plainCommandOf(asked: ExecStart, session_id: string): AskedCommand {
  refuseText(asked)
  const stdin = stdinOf(asked)
  const secret_refs = [...new Set(asked.secret_refs)].sort()
  const open = asked.stdin_open ? { stdin_open: true as const } : {}
  const command = {
    argv: asked.argv,
    cwd: cwdOf(asked.cwd),
    user: asked.user ?? DEFAULT_USER,
    timeout_ms: asked.timeout_ms ?? 0,
    // At least 1, because the agent replaces 0 by its own default.
    kill_grace_ms: Math.max(asked.kill_grace_ms ?? LIMITS.exec.kill_grace_ms_default, 1),
  }
  return {
    session_id,
    // The values of secrets are left out: a rotation does not change the fingerprint, and the fingerprint reveals no value.
    fingerprint: fingerprintOf({ ...command, ...open, ...(secret_refs.length === 0 ? {} : { secret_refs }) }, asked.env ?? {}, stdin),
    ...command,
    ...open,
    asked_env: asked.env ?? {},
    secret_refs,
    ...(stdin.length === 0 ? {} : { stdin_base64: stdin.toString('base64') }),
  }
}

export function withEnvironment<C extends Pick<AskedCommand, 'argv' | 'asked_env' | 'secret_refs'>>(
  { asked_env, secret_refs: _refs, ...command }: C,
  environment: WorkspaceEnvironment,
  { below, values }: GivenVariables,
): Omit<C, 'asked_env' | 'secret_refs'> & { env: Record<string, string> } {
  const env = { ...below, ...environmentWith(environment, asked_env, values) }
  refuseLarge(command.argv, { ...asked_env, ...values })
  return { ...command, env }
}

function refuseUnavailable(asked: ExecStart, session_id: string): void {
  if (session_id.startsWith(RESERVED_SESSION_PREFIX)) {
    throw fail('validation_failed', 'reserved_prefix', `Session ids that start with ${RESERVED_SESSION_PREFIX} belong to the template`, {
      details: { field: 'session_id' },
    })
  }
  const field = asked.execution_id !== undefined ? 'execution_id' : asked.output_limit_bytes !== undefined ? 'output_limit_bytes' : null
  if (field !== null) {
    throw fail('validation_failed', 'not_supported_for_mode', `${field} is for file-first workspaces`, {
      details: { field, mode: 'processful', operation: 'exec' },
    })
  }
}

function refuseText(asked: ExecStart): void {
  if (asked.argv[0] === '') throw invalid('argv', 'the program must not be empty')
  const env = Object.entries(asked.env ?? {})
  asked.argv.forEach((argument, at) => refuseWord(`argv.${at}`, argument))
  if (asked.user !== undefined) refuseWord('user', asked.user)
  for (const [name, value] of env) {
    if (name === '' || name.includes('=')) throw invalid('env', 'a name must not be empty or contain =')
    refuseWord('env', name)
    refuseWord(`env.${name}`, value)
  }
  refuseLarge(asked.argv, asked.env ?? {})
}

function refuseLarge(argv: readonly string[], env: Readonly<Record<string, string>>): void {
  const bytes = [...argv, ...Object.entries(env).flat()].reduce((sum, word) => sum + Buffer.byteLength(word) + 1, 0)
  if (bytes > LIMITS.exec.arguments_bytes_max) throw tooLarge('Arguments and environment are', LIMITS.exec.arguments_bytes_max)
}

/** Refused, because the kernel's strings end at NUL and a lone surrogate has no bytes. */
function refuseWord(field: string, word: string): void {
  if (word.includes('\0') || !word.isWellFormed()) throw invalid(field, 'must be Unicode text without NUL')
}

function cwdOf(cwd: string | undefined): string {
  if (cwd === undefined) return DEFAULT_CWD
  if (!cwd.startsWith('/') || cwd.includes('\0') || !cwd.isWellFormed() || Buffer.byteLength(cwd) > LIMITS.file.path_bytes_max) {
    throw fail('validation_failed', 'invalid_cwd', 'cwd must be an absolute path', { details: { field: 'cwd' } })
  }
  return cwd
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

function stdinOf({ stdin = '', stdin_encoding }: ExecStart): Buffer {
  const base64 = stdin_encoding === 'base64'
  if (base64 && !BASE64.test(stdin)) throw invalid('stdin', 'is not base64')
  if (!base64 && !stdin.isWellFormed()) throw invalid('stdin', 'must be Unicode text; send other bytes as base64')
  const bytes = Buffer.from(stdin, base64 ? 'base64' : 'utf8')
  if (bytes.length > LIMITS.exec.stdin_bytes_max) throw tooLarge('stdin is', LIMITS.exec.stdin_bytes_max)
  return bytes
}

/** Sorted, so that the order of the environment does not change the fingerprint. */
function fingerprintOf(command: object, env: Record<string, string>, stdin: Buffer): string {
  const sorted = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([command, sorted, stdin.length]))
    .update(stdin)
    .digest('hex')
}

function invalid(field: string, message: string): Failure {
  const path = field.slice(0, 200).toWellFormed()
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}

function tooLarge(what: string, max_bytes: number): Failure {
  return fail('payload_too_large', null, `${what} larger than ${max_bytes} bytes`, { details: { max_bytes } })
}
