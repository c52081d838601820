import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const MAIN = join(import.meta.dirname, '../../service/main.ts')

export interface MainProcess extends AsyncDisposable {
  base: string
  ended: Promise<NodeJS.Signals | null>
  kill(): Promise<void>
  /** As the supervisor does: the process may finish its work. */
  stop(): Promise<void>
}

const SERVES = {
  api: { words: 'the application API serves', field: 'address' },
  cell: { words: 'serving', field: 'gateway' },
} as const

/**
 * @param config_path file to write the configuration to
 * @returns when the process serves
 */
export async function startMainProcess(
  name: 'api' | 'cell',
  config: object,
  { config_path, env = {} }: { config_path: string; env?: Record<string, string> },
): Promise<MainProcess> {
  writeFileSync(config_path, JSON.stringify(config))
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', MAIN, name, '--config', config_path, '--enable-failpoints'],
    { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const ended = once(child, 'exit').then(([, signal]) => signal as NodeJS.Signals | null)
  const base = Promise.withResolvers<string>()
  const { words, field } = SERVES[name]
  createInterface(child.stdout).on('line', (line) => {
    const said = JSON.parse(line) as { msg?: string } & Partial<Record<string, string>>
    const address = said[field]
    if (said.msg === words && address !== undefined) base.resolve(address)
  })
  void ended.then((signal) => base.reject(new Error(`the ${name} ended before it served: ${signal ?? 'an exit'}`)))
  const end = async (signal: 'SIGKILL' | 'SIGTERM') => {
    child.kill(signal)
    await ended
  }
  const kill = () => end('SIGKILL')
  return { base: await base.promise, ended, kill, stop: () => end('SIGTERM'), [Symbol.asyncDispose]: kill }
}
