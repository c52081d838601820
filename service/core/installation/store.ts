import type { Reader } from '../../db/reader.ts'

/**
 * The id of the installation that the database is of: made once, by the migration that made its table. Whoever keeps anything outside of
 * the database keeps this id beside it, and acts on no other installation's word.
 */
export async function readInstallationId(reads: Reader): Promise<string> {
  const [row] = await reads.rows<{ id: string }>('installation.id', 'select id from installation', [])
  if (!row) throw new Error('the database has no installation id')
  return row.id
}
