import { parseArgs } from 'node:util'
import { listFeedback } from '../core/people/feedback/store.ts'
import { type Command, type Context, wholeNumber } from './command.ts'

const DAYS_DEFAULT = 30
const ROWS_MAX = 10_000
const DAY_MS = 24 * 3600 * 1000

export const FEEDBACK_COMMANDS: Record<string, Command> = {
  'feedback list': { synopsis: '[--days N]', run: showFeedback },
}

async function showFeedback(argv: string[], { db, output, clock }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { days: { type: 'string' } } })
  const days = values.days === undefined ? DAYS_DEFAULT : wholeNumber(values.days, '--days', 1)
  for (const row of await listFeedback(db, new Date(clock.now().getTime() - days * DAY_MS), ROWS_MAX)) {
    const { message_sha256: _digest, duplicate_of: _none, ...said } = row
    output.line(printable(JSON.stringify(said)))
  }
}

/** Escapes control characters that JSON permits but a terminal would obey. */
function printable(json: string): string {
  return json.replaceAll(
    /[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
