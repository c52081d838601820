// App, "Client versions": checked once per process, in the background. No call waits for it or fails because of it.
import type { ClientVersions } from './schemas.ts'

export const VERSION = '0.1.0'
const PACKAGE = '@berth/sdk'
const ANSWER_MS = 10_000
const ANSWER_CHARACTERS_MAX = 100_000
const TEXT_CHARACTERS_MAX = 200
const NUMBERS = /^(\d+)\.(\d+)\.(\d+)$/

/** The part of Node.js in use: this library is compiled without its types. */
interface NodeProcess {
  env?: Record<string, string | undefined>
  getBuiltinModule?(name: string): NodeHttp | undefined
}
interface NodeStream {
  on(event: string, heard: (value: never) => void): unknown
}
interface NodeHttp {
  get(
    url: string,
    options: { agent: false; timeout: number },
    heard: (response: NodeStream) => void,
  ): NodeStream & { destroy(error?: Error): void }
}

let is_done = false

/** Warns where the service no longer supports this version. Runs after a first call was answered, so as not to delay it. */
export function checkVersionOnce(url: string): void {
  const { process } = globalThis as { process?: NodeProcess }
  if (is_done || process?.env?.['BERTH_NO_VERSION_CHECK']) return
  is_done = true
  const path = `${url}/v1/client-versions`
  const asked = process === undefined ? askByFetch(path) : askByNode(path, process)
  asked.then(warn).catch(() => undefined) // a failed check must not disturb the program
}

async function askByFetch(url: string): Promise<string> {
  return (await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(ANSWER_MS) })).text()
}

/** Avoids fetch on Node.js: its connection would keep the process alive. */
function askByNode(url: string, process: NodeProcess): Promise<string> {
  const http = process.getBuiltinModule?.(url.startsWith('https:') ? 'node:https' : 'node:http')
  if (http === undefined) return Promise.reject(new Error('This version of Node.js lends no modules'))
  return new Promise((resolve, reject) => {
    const request = http.get(url, { agent: false, timeout: ANSWER_MS }, (response) => {
      let text = ''
      response.on('data', (chunk: { toString(): string }) => {
        text += chunk.toString()
        if (text.length > ANSWER_CHARACTERS_MAX) request.destroy()
      })
      response.on('end', () => resolve(text))
      response.on('error', reject)
    })
    request.on('socket', (socket: { unref(): void }) => socket.unref())
    request.on('timeout', () => request.destroy())
    request.on('error', reject)
  })
}

function warn(answer: string): void {
  const { clients } = JSON.parse(answer) as ClientVersions
  const { minimum_supported, upgrade_command } = clients.find((each) => each.package === PACKAGE) ?? {}
  if (minimum_supported === undefined || !isOlder(VERSION, minimum_supported)) return
  console.warn(`This is ${PACKAGE} ${VERSION}, and the service supports ${minimum_supported} and newer. Try: ${plain(upgrade_command)}`)
}

function isOlder(version: string, than: string): boolean {
  const [a, b] = [NUMBERS.exec(version)?.slice(1).map(Number), NUMBERS.exec(than)?.slice(1).map(Number)]
  const at = a?.findIndex((part, index) => part !== b?.[index]) ?? -1
  return b !== undefined && at >= 0 && (a?.[at] ?? 0) < (b[at] ?? 0)
}

/** Removes control characters from a service's text before it is printed. */
function plain(text: unknown): string {
  return String(text)
    .slice(0, TEXT_CHARACTERS_MAX)
    .replaceAll(/[^\x20-\x7e]/g, '?')
}
