import pg from 'pg'
import { isResponsive } from '../../db/responsive.ts'
import { connectionConfig, type DatabaseOptions } from '../../db/options.ts'

export interface Ownership {
  close(): Promise<void>
}

const RETRY_MS = 500
const PROBE_MS = 5000

/**
 * The server releases the advisory lock when the process or connection ends, and a waiting process gets the lock without polling. Work
 * that continues after a lost connection can commit nothing, because every commit names its attempt.
 * @param won is called each time the lock is acquired; its signal fires when the lock is lost
 */
export function ownCell(options: DatabaseOptions, cell_id: string, won: (signal: AbortSignal) => void): Ownership {
  let client: pg.Client | null = null
  let closed = false
  let retry: NodeJS.Timeout | undefined

  const contend = () => {
    const connection = new pg.Client({ ...connectionConfig(options), statement_timeout: 0 }) // the wait for the lock has no end
    const controller = new AbortController()
    client = connection
    const lose = () => {
      if (client !== connection) return
      client = null
      controller.abort(new Error('The cell is no longer ours'))
      clearInterval(probe)
      void connection.end().catch(() => undefined) // the connection is broken already
      if (!closed) retry = setTimeout(contend, RETRY_MS)
    }
    let probe: NodeJS.Timeout | undefined
    const prove = async () => {
      if (!(await isResponsive(connection, PROBE_MS))) lose()
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
  // Without these settings, a server that cannot reach this process would hold the lock for the default two hours.
  await connection.query('set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3')
  await connection.query("select pg_advisory_lock(hashtextextended('berth cell ' || $1, 0))", [cell_id])
}
