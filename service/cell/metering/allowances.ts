import type { Logger } from 'pino'
import { Value } from 'typebox/value'
import { AllowanceState } from '../../core/money/admission/allowance.ts'
import { reachedThresholds } from '../../core/money/usage/alerts.ts'
import { NO_GRANTS } from '../../core/money/usage/allowances.ts'
import { drawGrants } from '../../core/money/usage/draw.ts'
import { exhaustionOf, type Exhausted, type SpendFacts } from '../../core/money/usage/spend.ts'
import { thresholdsOf } from '../../core/money/usage/spend-store.ts'
import { periodOf, rangeOf } from '../../core/money/usage/period.ts'
import { readUsageTotals } from '../../core/money/usage/store.ts'
import type { Db } from '../../db/database.ts'
import { readerOf } from '../../db/reader.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import { insertAlerts, readJudged, writeAllowance, type Judged } from './allowance-store.ts'

export interface JudgeContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  log: Logger
}

/** Checks the allowances of organizations (App, "Reasons" of 402 allowance_exhausted). States set by an operator are not changed. */
export async function judgeAllowances(context: JudgeContext): Promise<string[]> {
  const changed: string[] = []
  const failures: unknown[] = []
  const now = context.clock.now()
  for (const one of await readJudged(readerOf(context.db), context.cell_id, periodOf(now).starts_at)) {
    try {
      if (await judgeOne(context, one, now)) changed.push(one.organization_id)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, 'some organizations could not be judged')
  return changed
}

async function judgeOne(context: JudgeContext, one: Judged, now: Date): Promise<boolean> {
  const period = periodOf(now)
  const scope = { organization_id: one.organization_id, project_id: null, subject: null }
  const used = await readUsageTotals(readerOf(context.db), scope, rangeOf(period))
  const granted = one.has_grants ? await drawGrants(context.db, one.organization_id, { included: one, used, period, at: now }) : NO_GRANTS
  const facts: SpendFacts = { prices: one, choice: one, used, granted, period, past_due: one.past_due }
  await noteAlerts(context, one, facts, now)
  return write(context, one, exhaustionOf(facts))
}

async function write({ db, log }: JudgeContext, one: Judged, found: Exhausted | null): Promise<boolean> {
  const known = stateOf(one)
  if (known === 'of_an_operator' || written(known) === written(found) || !(await writeAllowance(db, one, found))) return false
  const news = { organization_id: one.organization_id, reason: found?.reason ?? null, exhausted: found?.state.exhausted ?? [] }
  log.info(news, 'the remaining allowances have changed')
  return true
}

/** Records the alerts. The API sends the mails. */
async function noteAlerts({ db, ids }: JudgeContext, one: Judged, facts: SpendFacts, reached_at: Date): Promise<void> {
  const told = new Set(one.told)
  const reached = reachedThresholds(facts, thresholdsOf(one)).filter((each) => !told.has(`${each.subject} ${each.threshold_percent}`))
  const { organization_id } = one
  const of = { organization_id, period_starts_at: facts.period.starts_at, reached_at }
  await insertAlerts(
    db,
    of,
    reached.map((each) => ({ id: ids.next(), ...each })),
  )
}

function stateOf({ allowance_exhausted: reason, allowance: state }: Judged): Exhausted | null | 'of_an_operator' {
  if (reason === null) return null
  return Value.Check(AllowanceState, state) && state.judged === true ? { reason, state } : 'of_an_operator'
}

/** Omits the amount of overuse: more overuse is no change of the state. */
function written(found: Exhausted | null): string | null {
  if (found === null) return null
  const { reason, state } = found
  const each = state.exhausted.map(({ allowance, included_meter_units }) => `${allowance} ${included_meter_units}`)
  return [reason, state.resets_at, state.spend_cap?.effective_cap_minor ?? null, ...each].join()
}
