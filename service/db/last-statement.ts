import {
  CompiledQuery,
  type DatabaseConnection,
  Kysely,
  PostgresDialect,
  type PostgresDialectConfig,
  PostgresDriver,
  type QueryResult,
  type Transaction,
} from 'kysely'
import type pg from 'pg'
import type { Database } from './schema.ts'

/**
 * Sends a statement together with the commit, which saves a round trip. Its result is not available. If it fails, PostgreSQL commits
 * nothing and the commit rejects with its error.
 * @param values of these types only: a value that the driver refuses to send would not stop the commit that follows
 */
export async function queueLastStatement(
  tx: Transaction<Database>,
  text: string,
  values: readonly (string | Date | null)[],
): Promise<void> {
  const statement = CompiledQuery.raw(text, [...values])
  lasts.add(statement)
  await tx.executeQuery(statement)
}

const lasts = new WeakSet<CompiledQuery>()

/** The pool's connections must pipeline statements (`pipeline`). */
export function openKysely(pool: pg.Pool): Kysely<Database> {
  return new Kysely<Database>({ dialect: new LastStatementDialect({ pool }) })
}

class LastStatementDialect extends PostgresDialect {
  readonly #config: PostgresDialectConfig

  constructor(config: PostgresDialectConfig) {
    super(config)
    this.#config = config
  }

  override createDriver(): PostgresDriver {
    return new LastStatementDriver(this.#config)
  }
}

type Send = () => Promise<unknown>

class LastStatementDriver extends PostgresDriver {
  readonly #seen = new WeakSet<DatabaseConnection>()
  readonly #held = new WeakMap<DatabaseConnection, Send>()

  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection()
    if (!this.#seen.has(connection)) this.#holdLasts(connection)
    return connection
  }

  /** Any statement after the last one, except commit or rollback, is a bug. */
  #holdLasts(connection: DatabaseConnection): void {
    this.#seen.add(connection)
    const send = connection.executeQuery.bind(connection)
    connection.executeQuery = async <Row>(statement: CompiledQuery): Promise<QueryResult<Row>> => {
      if (this.#held.has(connection)) throw new Error('A statement came behind the last one of its transaction')
      if (!lasts.has(statement)) return send<Row>(statement)
      this.#held.set(connection, () => send(statement))
      return { rows: [] }
    }
  }

  #take(connection: DatabaseConnection): Send | undefined {
    const held = this.#held.get(connection)
    this.#held.delete(connection)
    return held
  }

  override async commitTransaction(connection: DatabaseConnection): Promise<void> {
    const sendLast = this.#take(connection)
    if (sendLast === undefined) return super.commitTransaction(connection)
    // Waits for both, because the connection returns to the pool afterwards. Both are checked: after a failed statement PostgreSQL answers
    // the commit with a rollback and no error.
    const ends = await Promise.allSettled([sendLast(), super.commitTransaction(connection)])
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    this.#take(connection)
    return super.rollbackTransaction(connection)
  }
}
