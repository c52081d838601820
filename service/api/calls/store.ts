import type { Reader } from '../../db/reader.ts'

export async function ask(reads: Reader): Promise<void> {
  await reads.rows('ask', 'select 1', [])
}

export async function newestIds(reads: Reader): Promise<string[]> {
  const newest = ['workspaces', 'operations', 'agent_sessions', 'secrets', 'secret_versions'].map(
    (table) => `(select id from ${table} order by id desc limit 1)`,
  )
  return (await reads.rows<{ id: string }>('ids.newest', newest.join(' union all '), [])).map((row) => row.id)
}
