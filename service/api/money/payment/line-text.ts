import type { InvoiceLine } from '../../../../contract/schemas/billing.ts'

export function lineText({ kind, plan, allowance, units }: InvoiceLine): string {
  switch (kind) {
    case 'plan':
      return `Plan ${plan}`
    case 'overage':
      return `${units ?? 0} ${allowance === 'cpu_hours' ? 'CPU-hours' : 'RAM GiB-hours'} beyond plan ${plan}`
    case 'cap':
      return 'Beyond the cap, and not charged'
  }
}
