import type pg from 'pg'

export interface DatabaseOptions {
  url: string
  /** Role of the process (migrations/0001); null: the login's own role. */
  role: 'berth_api' | 'berth_cell' | null
  connections_max: number
  application_name: string
  /** Time limit to accept a connection or answer a probe; default 1.5 s. */
  answers_within_ms?: number
}

export const applicationName = (process: 'api' | 'cell'): string => `berth-${process}`

export function connectionConfig(options: DatabaseOptions): pg.ClientConfig {
  return {
    connectionString: options.url,
    application_name: options.application_name,
    ...(options.role === null ? {} : { options: `-c role=${options.role}` }),
    connectionTimeoutMillis: 2000, // calls fail after two seconds if the database is down
    statement_timeout: 10_000,
    keepAlive: true,
  }
}
