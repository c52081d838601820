import type { Reader } from '../../db/reader.ts'
import type { Page } from '../pages.ts'
import { OPERATION_COLUMNS, type OperationRow } from './view.ts'

const COLUMNS = OPERATION_COLUMNS.join(', ')

export async function readOperation(reads: Reader, id: string): Promise<OperationRow | null> {
  const [row] = await reads.rows<OperationRow>('operations.by_id', `select ${COLUMNS} from operations where id = $1`, [id])
  return row ?? null
}

/** The operation that was last asked of a workspace; each has one. */
export async function newestOperation(reads: Reader, workspace_id: string): Promise<OperationRow | null> {
  const text = `select ${COLUMNS} from operations where workspace_id = $1 order by id desc limit 1`
  const [row] = await reads.rows<OperationRow>('operations.newest', text, [workspace_id])
  return row ?? null
}

/** One row more than the page holds, newest first. */
export function listOperations(
  reads: Reader,
  workspace_id: string,
  filter: { state?: string; kind?: string },
  page: Page,
): Promise<OperationRow[]> {
  return reads.rows(
    'operations.of_workspace',
    `select ${COLUMNS} from operations
     where workspace_id = $1 and ($2::uuid is null or id < $2) and ($3::text is null or state = $3) and ($4::text is null or kind = $4)
     order by id desc limit $5`,
    [workspace_id, page.below, filter.state ?? null, filter.kind ?? null, page.limit + 1],
  )
}

/** The last delete operation of a workspace. */
export async function lastDelete(reads: Reader, workspace_id: string): Promise<OperationRow | null> {
  const [row] = await reads.rows<OperationRow>(
    'operations.last_delete',
    `select ${COLUMNS} from operations where workspace_id = $1 and kind = 'delete' order by id desc limit 1`,
    [workspace_id],
  )
  return row ?? null
}
