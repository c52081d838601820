import type { Insertable } from 'kysely'
import type { Db } from '../../service/db/database.ts'
import type { Database } from '../../service/db/schema.ts'
import type { Ids } from '../../service/lib/ids.ts'

export function moneySeeds(db: Db, ids: Ids, created_at: Date) {
  return {
    async grant(organization_id: string, given: Partial<Insertable<Database['usage_grants']>> = {}) {
      const id = ids.next()
      const times = { created_at, expires_at: null, revoked_at: null }
      const row = { id, organization_id, allowance: 'cpu_hours', granted_meter_units: 3600, ...times, ...given } as const
      await db.insertInto('usage_grants').values(row).execute()
      return id
    },
    /** An organization has one invoice a month and currency. */
    async invoice(organization_id: string, month: number) {
      const id = ids.next()
      const times = { period_starts_at: new Date(Date.UTC(2031, month)), period_ends_at: new Date(Date.UTC(2031, month + 1)) }
      const row = { id, organization_id, number: id, state: 'open' as const, ...times, currency: 'EUR', lines: '[]', total_minor: 1 }
      const due_at = new Date(created_at.getTime() + 30 * 24 * 3600_000)
      await db
        .insertInto('invoices')
        .values({ ...row, issued_at: created_at, due_at, paid_at: null, voided_at: null })
        .execute()
      return id
    },
  }
}
