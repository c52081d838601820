import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { SHARED_SERVER_VARIABLE, startTestServer } from '../support/postgres.ts'
import { kindOf } from './lanes.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const SHARED_SERVICES = path.join(ROOT, 'tests/support/shared-services.ts')

export interface Context {
  environment(file: string): Promise<NodeJS.ProcessEnv | string>
  stopServices(): Promise<void>
  close(): Promise<void>
}

interface Services {
  env: Record<string, string>
  stop(): Promise<void>
}

export async function openContext(files: readonly string[], base: NodeJS.ProcessEnv, end: AbortSignal): Promise<Context> {
  const server = await startTestServer()
  const env = { ...base, [SHARED_SERVER_VARIABLE]: server.socket_dir }
  const ended = new Promise<{ failed: string }>((resolve) =>
    end.addEventListener('abort', () => resolve({ failed: String(end.reason) }), { once: true }),
  )
  const built = files.every(needsNoMachines) ? ended : Promise.race([setUp(), ended])
  let services: Promise<Services> | undefined
  let are_stopped = false
  const stopServices = async () => {
    are_stopped = true
    const started = await services?.catch(() => undefined) // a failed start has cleaned up after itself
    services = undefined
    await started?.stop()
  }
  return {
    async environment(file) {
      if (needsNoMachines(file)) return env
      const told = await built
      if ('failed' in told) return told.failed
      if (are_stopped || !usesServices(file)) return { ...env, ...told.env }
      Object.assign(process.env, told.env) // this process starts the services
      services ??= startServices()
      const started = services.catch((error: unknown) => ({ failed: `the services that files share did not start: ${String(error)}` }))
      const shared = await Promise.race([started, ended])
      return 'failed' in shared ? shared.failed : { ...env, ...told.env, ...shared.env }
    },
    stopServices,
    async close() {
      await stopServices()
      server.stop()
    },
  }
}

function needsNoMachines(file: string): boolean {
  return ['computes', 'last'].includes(kindOf(file))
}

async function startServices(): Promise<Services> {
  const { startSharedServices } = (await import(SHARED_SERVICES)) as { startSharedServices(): Promise<Services> }
  return startSharedServices()
}

function usesServices(file: string): boolean {
  return existsSync(SHARED_SERVICES) && readFileSync(path.join(ROOT, file), 'utf8').includes('support/shared-services.ts')
}

type SetUp = { env: Record<string, string> } | { failed: string }

/** Set-up runs in parallel to files without machines. Without a parent process, everything exists already. */
async function setUp(): Promise<SetUp> {
  if (process.send === undefined) return { env: {} }
  process.send('machines')
  return new Promise((resolve) => {
    process.once('message', (told) => resolve(told as SetUp))
    process.once('disconnect', () => resolve({ failed: 'the set-up ended without a word' }))
  })
}
