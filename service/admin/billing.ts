import { parseArgs } from 'node:util'
import { closePeriods } from '../core/money/billing/close.ts'
import { judgePayment, judgePayments } from '../core/money/billing/standing.ts'
import { endInvoice, listInvoicesOf, listSubscriptions, lockInvoice, type InvoiceRow } from '../core/money/billing/store.ts'
import { AdminError, type Command, type Context, idOf, organizationOf, show, subjectOf, words } from './command.ts'
import { byOperator } from './operator.ts'
import { setPlan } from './organizations.ts'

export const BILLING_COMMANDS: Record<string, Command> = {
  'subscription list': { synopsis: '[--json]', run: showSubscriptions },
  'subscription set': { synopsis: 'ORGANIZATION PLAN', run: setPlan },
  'invoice list': { synopsis: 'ORGANIZATION [--json]', run: showInvoices },
  'invoice paid': { synopsis: 'INVOICE', run: (argv, context) => end(argv, context, 'paid') },
  'invoice void': { synopsis: 'INVOICE', run: (argv, context) => end(argv, context, 'void') },
  'invoice close': { synopsis: '', run: closeAll },
}

async function showSubscriptions(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  show(output, await listSubscriptions(db), values.json)
}

async function showInvoices(argv: string[], { db, output }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: { json: { type: 'boolean' } } })
  const { id } = await organizationOf(db, words(positionals, 'organization').organization)
  show(output, await listInvoicesOf(db, id), values.json)
}

/** Paid and void are final. The same transaction updates whether the organization may start workspaces. */
async function end(argv: string[], { clock, output, change }: Context, state: 'paid' | 'void'): Promise<void> {
  const id = idOf(words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals, 'invoice').invoice, 'INVOICE')
  const now = clock.now()
  const row = await change(
    `invoices.${state}`,
    async (tx): Promise<InvoiceRow> => {
      const found = await lockInvoice(tx, id)
      if (found === undefined) throw new AdminError(`There is no invoice ${id}`)
      if (found.state !== 'open') throw new AdminError(`Invoice ${found.number} is ${found.state}`)
      await endInvoice(tx, id, state === 'paid' ? { state, paid_at: now } : { state, voided_at: now })
      await judgePayment(tx, found.organization_id, now)
      return found
    },
    ({ organization_id, number }) => subjectOf('organization', organization_id, { organization_id }, { number }),
  )
  output.note(`Invoice ${row.number} is ${state}`)
}

/** Closes billing periods now. The api also does this on a timer. */
async function closeAll(argv: string[], { db, output, clock, ids }: Context): Promise<void> {
  parseArgs({ args: argv, options: {} })
  const by = byOperator({ clock, ids })
  const { closed, invoices, failed } = await closePeriods(db, by)
  await judgePayments(db, by)
  output.note(`${closed} billing periods closed, ${invoices} invoices made`)
  for (const { organization_id, error } of failed)
    output.note(
      `A period of organization ${organization_id} could not be closed: ${error instanceof Error ? error.message : String(error)}`,
    )
}
