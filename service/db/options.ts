import type pg from 'pg'

/** How a process reaches its database. */
export interface DatabaseOptions {
  url: string
  /** The role that this process acts under (migrations/0001: what each may touch); null keeps the login's own. */
  role: 'berth_api' | 'berth_cell' | null
  connections_max: number
  application_name: string
  /** How long a server may take to let a connection in, and to answer a probe, before it counts as down; 1.5 s when absent. */
  answers_within_ms?: number
}

/** How the connections of a process name themselves to the database. */
export const applicationName = (process: 'api' | 'cell'): string => `berth-${process}`

/** Options of one connection, shared by the pool and by listeners. */
export function connectionConfig(options: DatabaseOptions): pg.ClientConfig {
  return {
    connectionString: options.url,
    application_name: options.application_name,
    ...(options.role === null ? {} : { options: `-c role=${options.role}` }),
    connectionTimeoutMillis: 2000, // a database that is down is answered in two seconds, not waited for
    statement_timeout: 10_000,
    keepAlive: true,
  }
}
