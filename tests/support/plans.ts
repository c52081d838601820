import { CompiledQuery, sql } from 'kysely'
import type { Db } from '../../service/db/database.ts'

interface Plan {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Index Recheck'?: number
  Plans?: Plan[]
}

/** @param plan `generic`: planned for any values; `custom`: for the given ones */
export function counting(superuser: Db, table: string, plan: 'generic' | 'custom') {
  const counted = { rows: 0, scanned: new Set<string>() }
  const rows = async <Row>(_name: string, text: string, values: unknown[]): Promise<Row[]> =>
    superuser.connection().execute(async (db) => {
      await sql`select set_config('plan_cache_mode', ${`force_${plan}_plan`}, false)`.execute(db)
      await db.executeQuery(CompiledQuery.raw(`prepare list as ${text}`))
      const literals = values.map((value) => {
        const text = value instanceof Date ? value.toISOString() : Array.isArray(value) ? `{${value.join(',')}}` : String(value)
        return value === null ? 'null' : `'${text}'`
      })
      const execute = `execute list${literals.length > 0 ? `(${literals.join(', ')})` : ''}`
      const explained = await db.executeQuery<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
        CompiledQuery.raw(`explain (analyze, format json) ${execute}`),
      )
      for (const row of explained.rows) {
        counted.rows += looked(table, row['QUERY PLAN'][0].Plan)
        for (const name of scanned(row['QUERY PLAN'][0].Plan)) counted.scanned.add(name)
      }
      const answer = await db.executeQuery<Row>(CompiledQuery.raw(execute))
      await db.executeQuery(CompiledQuery.raw('deallocate list'))
      return answer.rows
    })
  return { counted, reads: { rows } }
}

function looked(table: string, plan: Plan): number {
  const removed = (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Index Recheck'] ?? 0)
  const is_bitmap = plan['Node Type'] === 'Bitmap Index Scan'
  const own = plan['Relation Name'] === table || is_bitmap ? (plan['Actual Rows'] + removed) * plan['Actual Loops'] : 0
  return (plan.Plans ?? []).reduce((sum, inner) => sum + looked(table, inner), own)
}

function scanned(plan: Plan): string[] {
  const own = plan['Node Type'] === 'Seq Scan' && plan['Relation Name'] !== undefined ? [plan['Relation Name']] : []
  return [...own, ...(plan.Plans ?? []).flatMap(scanned)]
}
