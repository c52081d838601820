import type { Logger } from 'pino'
import { Value } from 'typebox/value'
import { AllowanceState } from '../../core/admission/allowance.ts'
import { judge } from '../../core/usage/allowances.ts'
import { periodOf } from '../../core/usage/period.ts'
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
 * Compares what organizations used in the billing period with what their plans include (App, "Reasons" of 402 allowance_exhausted). What
 * is used up refuses starts, and what runs is suspended by the clock that looks for it. What an operator has said is left alone.
 * @returns the organizations of which something else is true now.
 */
export async function judgeAllowances({ cell_id, db, clock, log }: JudgeContext): Promise<string[]> {
  const period = periodOf(clock.now())
  const changed: string[] = []
  for (const one of await readJudged(db, cell_id)) {
    const known = stateOf(one)
    if (known === 'of_an_operator') continue
    const scope = { organization_id: one.organization_id, project_id: null, subject: null }
    const used = await readUsageTotals(readerOf(db), scope, { from: period.starts_at, to: new Date(period.ends_at.getTime() - 1) })
    const found = judge(one, used, period)
    if (sameState(known, found) || !(await writeAllowance(db, one, found))) continue
    changed.push(one.organization_id)
    log.info({ organization_id: one.organization_id, exhausted: found?.exhausted ?? [] }, 'what is left of the allowances has changed')
  }
  return changed
}

function stateOf({ allowance_exhausted, allowance }: Judged): AllowanceState | null | 'of_an_operator' {
  if (allowance_exhausted === null) return null
  return Value.Check(AllowanceState, allowance) && allowance.judged === true ? allowance : 'of_an_operator'
}

/** What is used up, until when. How much was used beyond it is not news. */
function sameState(known: AllowanceState | null, found: AllowanceState | null): boolean {
  const written = (state: AllowanceState | null) =>
    state === null
      ? null
      : [state.resets_at, ...state.exhausted.map(({ allowance, included_meter_units }) => `${allowance} ${included_meter_units}`)].join()
  return written(known) === written(found)
}
