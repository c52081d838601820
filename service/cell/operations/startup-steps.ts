import type { ExecRequest } from '../../../contract/internal/agent-runs.ts'
import { secretInputs, type Service, type StartCommand } from '../../../contract/schemas/template-settings.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { DEFAULT_CWD, DEFAULT_USER, RESERVED_SESSION_PREFIX } from '../../../contract/schemas/cell/session.ts'
import type { Startup } from './startup-store.ts'

/** `needs`: secrets that must be available before anything starts. */
export type Step = { needs: readonly string[] } & ({ kind: 'command'; run: StartCommand } | { kind: 'service'; run: Service })

export type StepSession = Omit<ExecRequest, 'env'> & { asked_env: Record<string, string>; needs: readonly string[] }

export function stepsOf(startup: Startup): Step[] {
  const { start = [], services = [] } = startup
  const needs = secretInputs(startup, 'required')
  return [...start.map((run): Step => ({ kind: 'command', run, needs })), ...services.map((run): Step => ({ kind: 'service', run, needs }))]
}

/** The steps from the named one on, or all steps if none has the name. */
export function stepsFrom(steps: readonly Step[], name: string | null): Step[] {
  return steps.slice(
    Math.max(
      steps.findIndex(({ run }) => run.name === name),
      0,
    ),
  )
}

/** The agent starts no id twice: the command runs once per operation. */
export function commandSession(step: StartCommand, operation_id: string, needs: readonly string[]): StepSession {
  const { name, argv, timeout_seconds = LIMITS.startup.command_seconds_default } = step
  return { ...session(step, needs, sessionId(name, operation_id)), argv, timeout_ms: timeout_seconds * 1000 }
}

/** A shell loop restarts the service: it needs no process of the host, and survives a restore. */
export function serviceSession(step: Service, operation_id: string, needs: readonly string[]): StepSession {
  const { name, argv, restart = 'always' } = step
  return { ...session(step, needs, sessionId(name, operation_id)), argv: ['/bin/sh', '-c', KEEP, name, restart, ...argv] }
}

/** @returns null if the service is ready as soon as it runs */
export function readySession(step: Service, operation_id: string): StepSession | null {
  const { name, ready, ready_timeout_seconds = LIMITS.startup.ready_seconds_default } = step
  if (ready === undefined) return null
  const check = 'port' in ready ? ['/bin/bash', '-c', CONNECT, 'connect', `${ready.port}`] : ready.argv
  const argv = ['/bin/sh', '-c', UNTIL, `${name}.ready`, ...check]
  return { ...session(step, [], sessionId(`${name}.ready`, operation_id)), argv, timeout_ms: ready_timeout_seconds * 1000 }
}

// The wait before a restart doubles. A run of at least one minute resets it.
const KEEP = `restart=$1; shift; wait=1
while :; do
  begun=$(date +%s); "$@"; code=$?
  case $restart in never) exit $code;; on_failure) [ $code -eq 0 ] && exit 0;; esac
  [ $(($(date +%s) - begun)) -ge 60 ] && wait=1
  echo "$0 ended with $code and is started again in $wait s" >&2
  sleep $wait; wait=$((wait * 2)); [ $wait -gt 30 ] && wait=30
done`
const UNTIL = 'until "$@" >/dev/null 2>&1; do sleep 0.1; done'
const CONNECT = '(exec 3<>"/dev/tcp/127.0.0.1/$1") || (exec 3<>"/dev/tcp/::1/$1")'

function sessionId(name: string, operation_id: string): string {
  return `${RESERVED_SESSION_PREFIX}${name}.${operation_id}`
}

function session(
  { cwd = DEFAULT_CWD, user = DEFAULT_USER, env = {} }: StartCommand | Service,
  needs: readonly string[],
  session_id: string,
) {
  // The id is unique to the operation: it can be its own fingerprint.
  return { session_id, fingerprint: session_id, cwd, user, asked_env: env, needs, kill_grace_ms: LIMITS.exec.kill_grace_ms_default }
}
