import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { NormalSecretHost } from '../../../contract/schemas/secrets.ts'

// The TypeScript side of machine/internal/secretproxy/ask.go, with the same names.

/** The proxy's query for a machine's secrets, repeated while the machine makes requests. */
interface ProxyQuestion {
  id: number
  workspace_id: string
  epoch: number
}

export interface ProxyAnswer {
  authority: {
    id: string
    certificate: string
    /** PKCS #8, DER, base64 */
    private_key: string
  }
  secrets: { name: string; placeholder: string; value: string; hosts: NormalSecretHost[] }[]
}

/** null: no such machine. Throws if the answer is currently unknown. */
export type AnswerProxy = (workspace_id: string, epoch: number) => Promise<ProxyAnswer | null>

const AGAIN_MS = 200
const LINE_BYTES_MAX = 4096
const QUESTIONS_MAX = 256

/**
 * Maintains a connection to this computer's secret proxy and answers its queries. hostd creates the socket, so that only the cell's user
 * can answer. Without a connection the proxy injects no secrets.
 */
export async function answerProxy(path: string, answer: AnswerProxy, log: Logger, signal: AbortSignal): Promise<void> {
  const isOver = () => signal.aborted
  let said = false
  while (!isOver()) {
    try {
      await serve(await opened(path, signal), answer, log, signal)
      said = false
    } catch (error) {
      if (!isOver() && !said) log.warn({ err: error, path }, 'the secret proxy cannot be reached, and is tried again')
      said = true
    }
    await setTimeout(AGAIN_MS, undefined, { signal }).catch(() => undefined)
  }
}

function opened(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, signal })
    socket.once('connect', () => resolve(socket)).once('error', reject)
  })
}

async function serve(socket: Socket, answer: AnswerProxy, log: Logger, signal: AbortSignal): Promise<void> {
  const end = () => socket.destroy()
  signal.addEventListener('abort', end, { once: true })
  socket.on('error', end) // ends the loop over the lines
  let under_way = 0
  try {
    for await (const line of createInterface({ input: socket })) {
      const question = questionOf(line)
      if (question === null || under_way >= QUESTIONS_MAX) throw new Error('The proxy asks what makes no sense')
      under_way += 1
      void reply(socket, question, answer, log).finally(() => (under_way -= 1))
    }
  } finally {
    signal.removeEventListener('abort', end)
    end()
  }
}

async function reply(socket: Socket, { id, workspace_id, epoch }: ProxyQuestion, answer: AnswerProxy, log: Logger): Promise<void> {
  const said = await answer(workspace_id, epoch).then(
    (found) => (found === null ? { id, gone: true } : { id, ...found }),
    (error: unknown) => {
      log.warn({ err: error, workspace_id }, 'the secrets for requests of a workspace cannot be read at the moment')
      return { id, failed: true }
    },
  )
  if (!socket.destroyed) socket.write(`${JSON.stringify(said)}\n`)
}

function questionOf(line: string): ProxyQuestion | null {
  if (line.length > LINE_BYTES_MAX) return null
  try {
    const { id, workspace_id, epoch } = JSON.parse(line) as Partial<ProxyQuestion>
    return typeof id === 'number' && typeof workspace_id === 'string' && typeof epoch === 'number' ? { id, workspace_id, epoch } : null
  } catch {
    return null
  }
}
