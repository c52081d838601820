import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'

export interface Chromium {
  goto(url: string): Promise<void>
  evaluate(expression: string): Promise<unknown>
  close(): Promise<void>
}

const FLAGS = [
  '--headless', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync', '--user-data-dir=/tmp/profile', 'about:blank',
] // prettier-ignore
const ANSWER_MS = 120_000

/** Runs Chromium from the image, so that the test need not install one. The mounts end with its mount namespace. */
const START = `
set -e
mount -t erofs -o ro,loop "$IMAGE" "$ROOT" || mount -t erofs -o ro "$IMAGE" "$ROOT"
mount -t tmpfs tmpfs "$ROOT/tmp"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
exec chroot "$ROOT" /usr/bin/env HOME=/tmp /usr/bin/chromium "$@" ${FLAGS.join(' ')}`

interface Message {
  id?: number
  result?: Record<string, unknown>
  error?: { message: string }
}

export async function openChromium(image: string, flags: readonly string[] = []): Promise<Chromium> {
  const root = mkdtempSync(path.join(tmpdir(), 'berth-chromium-'))
  const child = spawn('unshare', ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', START, 'sh', ...flags], {
    env: { PATH: process.env['PATH'], IMAGE: image, ROOT: root },
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const ask = speak(child, ended)
  const { targetId } = await ask('Target.createTarget', { url: 'about:blank' })
  const { sessionId } = await ask('Target.attachToTarget', { targetId, flatten: true })
  const page = (method: string, params: object) => ask(method, params, sessionId as string)
  return {
    async goto(url) {
      const { errorText } = await page('Page.navigate', { url })
      if (errorText !== undefined) throw new Error(`${url}: ${JSON.stringify(errorText)}`)
    },
    async evaluate(expression) {
      const { result } = await page('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true })
      return (result as { value?: unknown }).value
    },
    async close() {
      child.kill('SIGKILL')
      await ended
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** JSON messages end with NUL, on descriptors 3 and 4. */
function speak(child: ChildProcess, ended: Promise<void>) {
  const [to, from] = [child.stdio[3] as Writable, child.stdio[4] as Readable]
  const waiting = new Map<number, PromiseWithResolvers<Record<string, unknown>>>()
  let rest = ''
  let last_id = 0
  to.on('error', () => undefined) // the end of the process rejects the pending requests
  from.setEncoding('utf8')
  from.on('data', (text: string) => {
    const messages = (rest + text).split('\0')
    rest = messages.pop() ?? ''
    for (const message of messages) {
      const { id, result, error } = JSON.parse(message) as Message
      const answer = waiting.get(id ?? 0)
      if (error !== undefined) answer?.reject(new Error(error.message))
      else answer?.resolve(result ?? {})
    }
  })
  return async (method: string, params: object, sessionId?: string): Promise<Record<string, unknown>> => {
    const id = (last_id += 1)
    const answer = Promise.withResolvers<Record<string, unknown>>()
    waiting.set(id, answer)
    to.write(`${JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) })}\0`)
    const late = setTimeout(() => answer.reject(new Error(`Chromium did not answer ${method}`)), ANSWER_MS)
    void ended.then(() => answer.reject(new Error(`Chromium ended before it answered ${method}`)))
    return answer.promise.finally(() => clearTimeout(late))
  }
}
