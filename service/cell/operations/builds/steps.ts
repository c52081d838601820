import { LIMITS } from '../../../../contract/limits.ts'
import type { PlanStep } from '../../../core/templates/recipes/plan.ts'
import type { BuildPlan } from '../../../core/templates/build-plan.ts'
import { Failure } from '../../../lib/fail.ts'
import { followInto, type OutputSink } from '../../filetree/executions/output.ts'
import type { AgentLink } from '../../host/agent-link.ts'
import type { CallBounds } from '../../host/agent-answer.ts'
import { bringFile, bringUpload, COPY_SCRIPT } from './files.ts'
import { BuildFailed } from './failed.ts'
import { reachOf } from './reach.ts'

export interface Guest {
  link: AgentLink
  bounds: CallBounds
  plan: BuildPlan
  /** null: this installation stores no uploads. */
  uploads_dir: string | null
  say(text: Buffer): void
}

interface Command {
  argv: string[]
  cwd: string
  user: string
  env: Record<string, string>
  timeout_seconds: number
}

/** @param number of the step, from 1 @throws BuildFailed */
export async function runStep(guest: Guest, step: PlanStep, number: number): Promise<void> {
  switch (step.kind) {
    case 'run':
      if (step.cwd !== '/') await asRoot(guest, number, 'cwd', ['mkdir', '-p', '--', step.cwd])
      return run(guest, number, 'run', step)
    case 'files': {
      for (const file of step.files) await bringFile(guest.link, file, guest.bounds)
      const owners = step.files.flatMap(({ user, path }) => [`${user}:`, path])
      return asRoot(guest, number, 'own', ['/bin/sh', '-ec', 'while [ $# -gt 0 ]; do chown -- "$1" "$2"; shift 2; done', 'own', ...owners])
    }
    case 'copy': {
      const { upload } = guest.plan
      if (upload === null || guest.uploads_dir === null) throw new BuildFailed('the build has no upload to copy from', number)
      await bringUpload(guest.link, guest.uploads_dir, upload, guest.bounds).catch((error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
        throw new BuildFailed('the upload is not there any more', number, null, { cause: error })
      })
      const { to, user, mode, sources } = step
      return asRoot(guest, number, 'copy', ['/bin/sh', '-c', COPY_SCRIPT, 'copy', to, user, mode ?? '', ...sources])
    }
  }
}

function asRoot(guest: Guest, number: number, what: string, argv: string[]): Promise<void> {
  const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  return run(guest, number, what, { argv, cwd: '/', user: 'root', env: { PATH }, timeout_seconds: LIMITS.build.step_seconds_max })
}

async function run(guest: Guest, number: number, what: string, command: Command): Promise<void> {
  const { link, bounds } = guest
  const { argv, cwd, user, env, timeout_seconds } = command
  const session_id = `build-${number}-${what}`
  const exec = { session_id, fingerprint: session_id, argv, cwd, user, env, timeout_ms: timeout_seconds * 1000 }
  const { body } = await link.startExec(exec, bounds)
  if (body.state === 'failed_to_start') throw new BuildFailed(body.error ?? 'it could not start', number)
  const takers = { stdout: taker(guest, number), stderr: taker(guest, number) }
  const ending = await followInto(link, session_id, takers, bounds).catch((error: unknown) => {
    if (!(error instanceof Failure) || error.reason !== 'output_expired') throw error
    throw new BuildFailed('it said more than can be kept until it is read', number, null, { cause: error })
  })
  if (ending.timed_out) throw new BuildFailed(`it did not end within ${timeout_seconds} seconds`, number)
  if (ending.state === 'failed_to_start') throw new BuildFailed(ending.error ?? 'it could not start', number)
  if (ending.state === 'lost') throw new BuildFailed('it was lost with its machine: the memory of the machine may not suffice', number)
  if (ending.term_signal !== null) throw new BuildFailed(`it was ended by ${ending.term_signal}`, number)
  if (ending.exit_code !== 0) {
    const reach = what === 'run' ? `; ${reachOf(guest.plan.egress)}` : ''
    throw new BuildFailed(`it ended with ${ending.exit_code}${reach}`, number, ending.exit_code)
  }
}

function taker({ say }: Guest, number: number): OutputSink {
  let bytes = 0
  return {
    get bytes() {
      return bytes
    },
    add(data) {
      bytes += data.length
      if (bytes > LIMITS.build.step_output_bytes_max)
        throw new BuildFailed(`it said more than ${LIMITS.build.step_output_bytes_max} bytes`, number)
      say(Buffer.from(data))
    },
  }
}
