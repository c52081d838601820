import type { Reader } from '../../db/reader.ts'

/** A store outside the database has this id, and refuses commands of another installation. */
export async function readInstallationId(reads: Reader): Promise<string> {
  const [row] = await reads.rows<{ id: string }>('installation.id', 'select id from installation', [])
  if (!row) throw new Error('the database has no installation id')
  return row.id
}
