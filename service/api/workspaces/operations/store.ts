import { OPERATION_KINDS, OPERATION_STATES } from '../../../../contract/states/operation.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'
import { OPERATION_COLUMNS, type OperationRow } from './view.ts'

const COLUMNS = OPERATION_COLUMNS.join(', ')

export async function readOperation(reads: Reader, id: string): Promise<OperationRow | null> {
  const [row] = await reads.rows<OperationRow>('operations.by_id', `select ${COLUMNS} from operations where id = $1`, [id])
  return row ?? null
}

export async function newestOperation(reads: Reader, workspace_id: string): Promise<OperationRow | null> {
  const text = `select ${COLUMNS} from operations where workspace_id = $1 order by uuid_send(id) desc limit 1`
  const [row] = await reads.rows<OperationRow>('operations.newest', text, [workspace_id])
  return row ?? null
}

type Filter = { state?: string; kind?: string }

export function listOperations(reads: Reader, workspace_id: string, filter: Filter, page: Page): Promise<OperationRow[]> {
  const filtered = filter.state !== undefined || filter.kind !== undefined
  const { name, text, values } = (filtered ? ofKindsAndStates : ofWorkspace)(workspace_id, filter, page)
  return reads.rows(`operations.list:${name}`, text, values)
}

interface Statement {
  name: string
  text: string
  values: unknown[]
}

/** A later page has its own statement, so that the plan starts the index scan at the page. */
function ofWorkspace(workspace_id: string, _filter: Filter, { below, limit }: Page): Statement {
  const on = below === null ? '' : 'and uuid_send(id) < uuid_send($3::uuid)'
  const text = `select ${COLUMNS} from operations where workspace_id = $1 ${on} order by uuid_send(id) desc limit $2`
  return { name: below === null ? 'a' : 'ab', text, values: [workspace_id, limit + 1, ...(below === null ? [] : [below])] }
}

/** An index (migration 0019) has this order, so only rows of the page are read. */
function ofKindsAndStates(workspace_id: string, { state, kind }: Filter, { below, limit }: Page): Statement {
  const values: unknown[] = [workspace_id, limit + 1]
  const next = (value: unknown) => `$${values.push(value)}`
  const kinds = kind === undefined ? listed(OPERATION_KINDS) : `(${next(kind)})`
  const states = state === undefined ? listed(OPERATION_STATES) : `(${next(state)})`
  const on = below === null ? '' : `and uuid_send(o.id) < uuid_send(${next(below)}::uuid)`
  const text = `select ${COLUMNS} from operations where id = any(array(
    select b.id from (values ${kinds}) k(kind) cross join (values ${states}) s(state) cross join lateral (
      select o.id from operations o where o.workspace_id = $1 and o.kind = k.kind and o.state = s.state ${on}
      order by uuid_send(o.id) desc limit $2
    ) b order by b.id desc limit $2)) order by id desc limit $2`
  return { name: [kind === undefined ? '' : 'k', state === undefined ? '' : 's', below === null ? '' : 'b'].join(''), text, values }
}

function listed(names: readonly string[]): string {
  return names.map((name) => `('${name}')`).join(', ')
}

export async function lastDelete(reads: Reader, workspace_id: string): Promise<OperationRow | null> {
  const [row] = await reads.rows<OperationRow>(
    'operations.last_delete',
    `select ${COLUMNS} from operations where workspace_id = $1 and kind = 'delete' order by uuid_send(id) desc limit 1`,
    [workspace_id],
  )
  return row ?? null
}
