import type { Reader } from '../../db/reader.ts'

/** The id of the installation. Data outside the database is stored with this id, and a command of another installation is refused. */
export async function readInstallationId(reads: Reader): Promise<string> {
  const [row] = await reads.rows<{ id: string }>('installation.id', 'select id from installation', [])
  if (!row) throw new Error('the database has no installation id')
  return row.id
}
