import type { Logger } from 'pino'
import { tellConfirmed } from '../../core/revocations/store.ts'
import { answerText, parseAsk, type RevocationAsk, type RevocationScope } from '../../core/revocations/words.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'

/** Resolves when all that this process has heard of before the call holds, as far as this part of it enforces. */
export type Enforcer = (scope: RevocationScope) => Promise<unknown>

export interface ConfirmingContext {
  cell_id: string
  db: Db
  listener: Pick<Listener, 'on'>
  log: Logger
}

/** Tells apis which ask that what they have committed holds here. One question of an api about one thing is worked on at a time: the newest. */
export function startConfirming({ cell_id, db, listener, log }: ConfirmingContext, enforcers: readonly Enforcer[]): () => void {
  const newest = new Map<string, RevocationAsk>()
  const confirm = async (name: string) => {
    for (let ask = newest.get(name); ask !== undefined; ask = newest.get(name)) {
      const { scope } = ask
      try {
        await Promise.all(enforcers.map((enforcer) => enforcer(scope)))
        await tellConfirmed(db, answerText({ ...ask, by: `cell:${cell_id}` }))
      } catch (error) {
        log.warn({ err: error, scope }, 'a revocation could not be confirmed') // it is asked again
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
