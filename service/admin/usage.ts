import { parseArgs } from 'node:util'
import { periodOf } from '../core/money/usage/period.ts'
import { reconcile } from '../core/money/usage/reconcile.ts'
import { AdminError, type Command, type Context, momentOf, show } from './command.ts'

export const USAGE_COMMANDS: Record<string, Command> = {
  'usage reconcile': { synopsis: '[--from TIME] [--json]', run: showDifferences },
}

async function showDifferences(argv: string[], { db, output, clock }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { from: { type: 'string' }, json: { type: 'boolean' } } })
  const now = clock.now()
  const month_before = periodOf(new Date(periodOf(now).starts_at.getTime() - 1)).starts_at
  const { differences, late } = await reconcile(db, values.from === undefined ? month_before : momentOf(values.from, '--from'), now)
  if (differences.length > 0) show(output, differences as unknown as Record<string, unknown>[], values.json)
  if (late > 0) output.note(`${late} samples wait to become entries for more than a day: no cell closes them`)
  if (differences.length > 0 || late > 0) throw new AdminError(`${differences.length} differences`)
  output.note('Counters, samples, ledger and sums are the same')
}
