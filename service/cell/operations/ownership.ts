import pg from 'pg'
import { answers } from '../../db/answers.ts'
import { connectionConfig, type DatabaseOptions } from '../../db/options.ts'

export interface Ownership {
  close(): Promise<void>
}

const RETRY_MS = 500
const PROBE_MS = 5000

/**
 * One process acts for a cell: the one whose connection holds the cell's advisory lock. It is the server that ends the lock, with
 * the process or its connection, so a cell that restarts has it back at once and a second process waits without asking again.
 * Losing the connection ends the right to act; what is under way then can commit nothing, since every commit names its attempt.
 * @param won is called with a signal that fires when the right is lost. It is called anew each time the lock is won again.
 */
export function ownCell(options: DatabaseOptions, cell_id: string, won: (signal: AbortSignal) => void): Ownership {
  let client: pg.Client | null = null
  let closed = false
  let retry: NodeJS.Timeout | undefined

  const contend = () => {
    const connection = new pg.Client({ ...connectionConfig(options), statement_timeout: 0 }) // waiting for the lock has no end
    const controller = new AbortController()
    client = connection
    const lose = () => {
      if (client !== connection) return
      client = null
      controller.abort(new Error('The cell is no longer ours'))
      clearInterval(probe)
      void connection.end().catch(() => undefined) // it is broken already
      if (!closed) retry = setTimeout(contend, RETRY_MS)
    }
    let probe: NodeJS.Timeout | undefined
    const prove = async () => {
      if (!(await answers(connection, PROBE_MS))) lose()
    }
    connection.on('error', lose)
    connection.on('end', lose)
    lock(connection, cell_id).then(() => {
      if (client !== connection) return
      probe = setInterval(() => void prove(), PROBE_MS)
      won(controller.signal)
    }, lose)
  }
  contend()
  return {
    async close() {
      closed = true
      clearTimeout(retry)
      await client?.end().catch(() => undefined)
    },
  }
}

async function lock(connection: pg.Client, cell_id: string): Promise<void> {
  await connection.connect()
  // A server that cannot reach us any more must not keep the lock for the two hours of the default.
  await connection.query('set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3')
  await connection.query("select pg_advisory_lock(hashtextextended('berth cell ' || $1, 0))", [cell_id])
}
