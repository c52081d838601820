import pg from 'pg'
import { connectionConfig, type DatabaseOptions } from './options.ts'

// Every int8 of ours is a counter far below 2^53; the driver's text would spread string arithmetic.
pg.types.setTypeParser(pg.types.builtins.INT8, (text: string) => Number.parseInt(text, 10))

/** A statement that takes longer makes us look whether the database is there at all. */
const PATIENCE_MS = 1000
const ANSWERS_WITHIN_MS = 1500

/**
 * A pool whose statements fail within two seconds when the server has stopped answering. A server that is
 * stopped keeps its sockets open, and its own statement timeout stands still with it, so nothing else would ever end them.
 * One that answers a probe is only busy: then a statement may take its time.
 */
export function openWatchedPool(options: DatabaseOptions): pg.Pool {
  const config = { ...connectionConfig(options), connectionTimeoutMillis: options.answers_within_ms ?? ANSWERS_WITHIN_MS }
  const watch = watchServer(config)
  class WatchedClient extends pg.Client {
    // The driver's method has many shapes; all of them end in a callback or a promise.
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
  // Statements are sent as they come: whoever has two for one connection waits for both together (last-statement.ts).
  const given = { ...config, pipeline: true, max: options.connections_max, Client: WatchedClient as unknown as typeof pg.Client }
  const pool = new pg.Pool(given)
  // A connection that breaks says so as an event, and nobody listens while it is in use: unheard, the event would end the process.
  // The statement in progress, or the next one, reports it.
  pool.on('connect', (client) => client.on('error', () => undefined))
  pool.on('error', () => undefined)
  return pool
}

/** Statements that connections keep prepared: their texts are ours, so there are a few hundred, but for inserts of many rows. */
const PREPARED_MAX = 1000
const PREPARED_CHARACTERS_MAX = 4000
/** A plan for any number of ids counts on ten. */
const PREPARED_LIST_MAX = 100
const names = new Map<string, string>()

/**
 * A statement with values, as the query builder sends it, is parsed and planned once a connection: for a short one that takes longer
 * than its execution. Not one that reads every column there is: a migration would end the prepared form of it.
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

/** Shares one probe among all statements that wait for the same server. */
function watchServer(config: pg.ClientConfig & { connectionTimeoutMillis: number }) {
  const within_ms = config.connectionTimeoutMillis / 2
  let probing: Promise<boolean> | null = null
  const answers = () => {
    probing ??= probe(config, within_ms).finally(() => (probing = null))
    return probing
  }
  return {
    /** @returns to be called when the statement has ended. */
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
  client.on('error', () => undefined) // whatever it is, it did not answer
  const late = new Promise<false>((resolve) => setTimeout(() => resolve(false), within_ms))
  const asked = client
    .connect()
    .then(() => client.query('select 1'))
    .then(
      () => true,
      // Without a free connection it has answered, though not to our liking.
      (error: unknown) => /^(53|57P03)/.test(String((error as { code?: unknown }).code)),
    )
  const answered = await Promise.race([asked, late])
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  return answered
}
