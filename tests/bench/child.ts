import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'

/**
 * Runs a server of a benchmark in its own process, like the service's: in the client's process it would compete for one core. The
 * first line that it prints is JSON, returned as `told`. It ends with its stdin.
 */
export async function startChild(file: string, ...args: string[]): Promise<{ told: unknown } & AsyncDisposable> {
  const command = ['--disable-warning=ExperimentalWarning', path.join(import.meta.dirname, file), ...args]
  const child = spawn(process.execPath, command, { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface(child.stdout)
  const [line] = (await Promise.race([
    once(lines, 'line'),
    once(child, 'exit').then(() => {
      throw new Error(`${file} ended before it had begun`)
    }),
  ])) as [string]
  return {
    told: JSON.parse(line) as unknown,
    async [Symbol.asyncDispose]() {
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
    },
  }
}

/** Called in the child: reports that it serves, and returns when it should end. */
export async function serveUntilTold(told: unknown): Promise<void> {
  process.stdout.write(`${JSON.stringify(told)}\n`)
  process.stdin.resume()
  await once(process.stdin, 'end')
}
