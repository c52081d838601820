import { TOOL_CALLS } from '../../../core/changes/audit.ts'
import type { EventRow } from '../../../core/changes/chain.ts'
import type { Reader } from '../../../db/reader.ts'

export type { EventRow }

export interface EventFilter {
  actor_id?: string
  action?: string
  subject_id?: string
  from?: string
  to?: string
}

export interface ScannedEvents {
  rows: EventRow[]
  /** Where the next page continues: the page's last row, or the last scanned row. null: the end. */
  last: string | null
}

/** Scans at most `looked_max` rows for a page, so every page costs about the same. A page may be empty while more rows exist. */
export async function listEvents(
  reads: Reader,
  organization_id: string,
  filter: EventFilter,
  { below, limit }: { below: string | null; limit: number },
  looked_max: number,
): Promise<ScannedEvents> {
  const first = below === null
  // Tool calls are numerous. They are listed only on request, with an index of their own.
  const of_tools = filter.action === TOOL_CALLS
  const rows = await reads.rows<EventRow & { fits: boolean; at: number }>(
    `audit.list${of_tools ? ':t' : ''}${first ? '' : ':b'}`,
    `select * from (
       select *, row_number() over (order by uuid_send(id) desc)::int as at, ($3::uuid is null or actor_id = $3) and ($4::text is null or action = $4)
         and ($5::text is null or subject_id = $5) and ($6::timestamptz is null or created_at >= $6) and ($7::timestamptz is null or created_at <= $7) as fits
       from (select * from audit_events where organization_id = $1 and action ${of_tools ? '=' : '<>'} '${TOOL_CALLS}' ${first ? '' : 'and uuid_send(id) < uuid_send($8::uuid)'}
             order by uuid_send(id) desc limit $2) newest
     ) looked where fits or at = $2 order by at`,
    [
      organization_id,
      looked_max,
      filter.actor_id ?? null,
      filter.action ?? null,
      filter.subject_id ?? null,
      filter.from ?? null,
      filter.to ?? null,
      ...(first ? [] : [below]),
    ],
  )
  const fitting = rows.filter(({ fits }) => fits)
  if (fitting.length > limit) return { rows: fitting.slice(0, limit), last: fitting[limit - 1]?.id ?? null }
  const end = rows.at(-1)
  return { rows: fitting, last: end?.at === looked_max ? end.id : null }
}
