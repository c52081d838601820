import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'

/**
 * A process of its own does not compete with the client for one core. `told` is the child's first line, as JSON. The child ends with its
 * stdin.
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

/** Called in the child. */
export async function serveUntilTold(told: unknown): Promise<void> {
  process.stdout.write(`${JSON.stringify(told)}\n`)
  process.stdin.resume()
  await once(process.stdin, 'end')
}
