import pg from 'pg'
import { connectionConfig, type DatabaseOptions } from './options.ts'

// int8 is parsed to a number. All int8 columns are counters far below 2^53, and text would lead to string arithmetic.
pg.types.setTypeParser(pg.types.builtins.INT8, (text: string) => Number.parseInt(text, 10))

const PATIENCE_MS = 1000
const ANSWERS_WITHIN_MS = 1500

/**
 * A stopped server keeps its sockets open and does not enforce its statement timeout, so the pool probes it.
 * A server that answers a probe is only busy, and its statement may continue.
 */
export function openWatchedPool(options: DatabaseOptions): pg.Pool {
  const config = { ...connectionConfig(options), connectionTimeoutMillis: options.answers_within_ms ?? ANSWERS_WITHIN_MS }
  const watch = watchServer(config)
  class WatchedClient extends pg.Client {
    // Covers all overloads, because each ends in a callback or a promise.
    override query(...given: unknown[]): never {
      const socket = (this as unknown as { connection: { stream: { destroy(): void } } }).connection.stream
      const done = watch.begin(() => socket.destroy())
      const callback = given.at(-1)
      if (typeof callback === 'function') {
        given[given.length - 1] = (...results: unknown[]) => {
          done()
          Reflect.apply(callback, undefined, results)
        }
      }
      const result = Reflect.apply(super.query.bind(this), this, preparing(given)) as unknown
      if (result instanceof Promise) result.then(done, done)
      return result as never
    }
  }
  const given = { ...config, pipeline: true, max: options.connections_max, Client: WatchedClient as unknown as typeof pg.Client }
  const pool = new pg.Pool(given)
  // Errors are ignored here: without a listener the 'error' of a broken connection would end the process. The current or next statement
  // reports the failure.
  pool.on('connect', (client) => client.on('error', () => undefined))
  pool.on('error', () => undefined)
  return pool
}

const PREPARED_MAX = 1000
const PREPARED_CHARACTERS_MAX = 4000
/** Longer lists are not prepared, because PostgreSQL's generic plan assumes lists of ten. */
const PREPARED_LIST_MAX = 100
const names = new Map<string, string>()

/**
 * Each connection parses and plans a named statement once: for short ones that takes longer than execution.
 * A statement with `*` is not named, because a migration would invalidate it.
 */
function preparing(given: unknown[]): unknown[] {
  const [text, values, ...rest] = given
  if (typeof text !== 'string' || !Array.isArray(values) || values.length === 0) return given
  if (text.length > PREPARED_CHARACTERS_MAX || text.includes('*')) return given
  if (values.some((value) => Array.isArray(value) && value.length > PREPARED_LIST_MAX)) return given
  let name = names.get(text)
  if (name === undefined) {
    if (names.size >= PREPARED_MAX) return given
    name = `s${names.size}`
    names.set(text, name)
  }
  return [{ name, text, values }, ...rest]
}

function watchServer(config: pg.ClientConfig & { connectionTimeoutMillis: number }) {
  const within_ms = config.connectionTimeoutMillis / 2
  let probing: Promise<boolean> | null = null
  const answers = () => {
    probing ??= probe(config, within_ms).finally(() => (probing = null))
    return probing
  }
  return {
    begin(giveUp: () => void): () => void {
      let ended = false
      const look = async () => {
        if (await answers()) timer = ended ? timer : setTimeout(() => void look(), PATIENCE_MS)
        else if (!ended) giveUp()
      }
      let timer = setTimeout(() => void look(), PATIENCE_MS)
      return () => {
        ended = true
        clearTimeout(timer)
      }
    },
  }
}

async function probe(config: pg.ClientConfig, within_ms: number): Promise<boolean> {
  const client = new pg.Client({ ...config, connectionTimeoutMillis: within_ms })
  client.on('error', () => undefined) // ignored: an error counts as no answer
  const late = new Promise<false>((resolve) => setTimeout(() => resolve(false), within_ms))
  const asked = client
    .connect()
    .then(() => client.query('select 1'))
    .then(
      () => true,
      // True for these errors: a server that refuses for lack of connections has answered.
      (error: unknown) => /^(53|57P03)/.test(String((error as { code?: unknown }).code)),
    )
  const answered = await Promise.race([asked, late])
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  return answered
}
