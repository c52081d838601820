import type { Logger } from 'pino'
import { Value } from 'typebox/value'
import { AllowanceState } from '../../core/admission/allowance.ts'
import { judge, type Exhausted } from '../../core/usage/spend.ts'
import { periodOf, rangeOf } from '../../core/usage/period.ts'
import { readUsageTotals } from '../../core/usage/store.ts'
import type { Db } from '../../db/database.ts'
import { readerOf } from '../../db/reader.ts'
import type { Clock } from '../../lib/clock.ts'
import { readJudged, writeAllowance, type Judged } from './allowance-store.ts'

export interface JudgeContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
}

/**
 * Compares what organizations used in the billing period with what their plans include, and what is charged beyond it with their cap (App,
 * "Reasons" of 402 allowance_exhausted). Where nothing more may be used starts are refused, and what runs is suspended by the clock that
 * looks for it. What an operator has said is left alone.
 * @returns the organizations of which something else is true now.
 */
export async function judgeAllowances({ cell_id, db, clock, log }: JudgeContext): Promise<string[]> {
  const reads = readerOf(db)
  const period = periodOf(clock.now())
  const changed: string[] = []
  for (const one of await readJudged(reads, cell_id)) {
    const known = stateOf(one)
    if (known === 'of_an_operator') continue
    const scope = { organization_id: one.organization_id, project_id: null, subject: null }
    const used = await readUsageTotals(reads, scope, rangeOf(period))
    const found = judge({ prices: one, choice: one, used, period, past_due: one.past_due })
    if (written(known) === written(found) || !(await writeAllowance(db, one, found))) continue
    changed.push(one.organization_id)
    const news = { organization_id: one.organization_id, reason: found?.reason ?? null, exhausted: found?.state.exhausted ?? [] }
    log.info(news, 'what is left of the allowances has changed')
  }
  return changed
}

function stateOf({ allowance_exhausted: reason, allowance: state }: Judged): Exhausted | null | 'of_an_operator' {
  if (reason === null) return null
  return Value.Check(AllowanceState, state) && state.judged === true ? { reason, state } : 'of_an_operator'
}

/** Why, what is used up, until when, and under which cap. How much was used beyond it is not news. */
function written(found: Exhausted | null): string | null {
  if (found === null) return null
  const { reason, state } = found
  const each = state.exhausted.map(({ allowance, included_meter_units }) => `${allowance} ${included_meter_units}`)
  return [reason, state.resets_at, state.spend_cap?.effective_cap_minor ?? null, ...each].join()
}
