import type { Logger } from 'pino'
import { notifyConfirmed } from '../../../core/revocations/store.ts'
import { answerText, parseAsk, type RevocationQuestion, type RevocationScope } from '../../../core/revocations/messages.ts'
import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'

/** Resolves when one part of the cell enforces all revocations that this process received before the call. */
export type Enforcer = (scope: RevocationScope) => Promise<unknown>

export interface ConfirmingContext {
  cell_id: string
  db: Db
  listener: Pick<Listener, 'on'>
  log: Logger
}

export function startConfirming({ cell_id, db, listener, log }: ConfirmingContext, enforcers: readonly Enforcer[]): () => void {
  const newest = new Map<string, RevocationQuestion>()
  const confirm = async (name: string) => {
    for (let ask = newest.get(name); ask !== undefined; ask = newest.get(name)) {
      const { scope } = ask
      try {
        await Promise.all(enforcers.map((enforcer) => enforcer(scope)))
        await notifyConfirmed(db, answerText({ ...ask, by: `cell:${cell_id}` }))
      } catch (error) {
        log.warn({ err: error, scope }, 'a revocation could not be confirmed') // not retried here: the api asks again
      }
      if (newest.get(name) === ask) newest.delete(name)
    }
  }
  return listener.on('berth_revocation', (text) => {
    const ask = text === null ? null : parseAsk(text)
    if (ask === null) return
    const name = `${ask.asker} ${ask.scope}`
    const is_under_way = newest.has(name)
    newest.set(name, ask)
    if (!is_under_way) void confirm(name)
  })
}
