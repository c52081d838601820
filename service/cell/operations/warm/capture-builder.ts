import type { Listener } from '../../../db/listen.ts'
import { HostFailure } from '../../host/hostd.ts'
import { buildSubject } from '../../host/subject.ts'
import { drawFence } from '../../machines/settle-store.ts'
import { oneAtATime, debounced, tickEvery } from '../../../lib/poll.ts'
import { makeCapture, type WarmContext } from './make.ts'
import { countCaptures, forgetCaptures, listUnmade, nextWanted, requestCapture } from './store.ts'

/** A pass finds captures whose notice was lost, and retries those without capacity. */
const LOOK_MS = 60_000
/** Delays the pass, so that the open that caused the notice uses the computer first. */
const HEARD_MS = 500

/** @param kept_max the most captures on this computer; 0: none is made */
export function startWarming(context: WarmContext & { kept_max: number }, listener: Listener, signal: AbortSignal): void {
  let heard = 0
  const look = oneAtATime(async () => {
    let looked_for: number
    do {
      looked_for = heard // a notice during a pass causes another pass
      await buildCaptures(context, signal)
    } while (heard !== looked_for && !signal.aborted)
  })
  const failed = (error: unknown) => {
    if (!signal.aborted) context.log.warn({ err: error }, 'warm machines could not be made or removed')
  }
  const begin = debounced(HEARD_MS, () => void look().catch(failed), signal)
  const hear = () => {
    heard += 1
    begin()
  }
  signal.addEventListener('abort', listener.on('berth_template_capture', hear), { once: true })
  tickEvery(LOOK_MS, look, failed, signal)
  begin()
}

export async function buildCaptures(context: WarmContext & { kept_max: number }, signal: AbortSignal): Promise<void> {
  const { db, clock, ids, cell_id, kept_max } = context
  await removeForgotten(context)
  const free = kept_max - (await countCaptures(db, cell_id))
  for (const one of free > 0 ? await listUnmade(db, cell_id, free) : [])
    await requestCapture(db, { ...one, id: ids.next(), cell_id }, clock.now())
  const passed_over: string[] = []
  for (;;) {
    const wanted = kept_max === 0 ? undefined : await nextWanted(db, cell_id, passed_over)
    if (wanted === undefined || signal.aborted) return
    passed_over.push(wanted.id)
    await makeCapture(context, wanted, signal).catch((error: unknown) => {
      if (signal.aborted) throw error
      context.log.warn({ version_id: wanted.version_id, err: error }, 'a machine of a warm version could not be made yet')
    })
    await removeForgotten(context)
  }
}

/** Deletes captures that are no longer needed. A reconcile pass finds files that an interrupted process leaves behind. */
async function removeForgotten({ db, host, ids, cell_id, kept_max }: WarmContext & { kept_max: number }): Promise<void> {
  const forgotten = await forgetCaptures(db, cell_id, kept_max)
  if (forgotten.length === 0) return
  const fence = await drawFence(db)
  for (const id of forgotten) {
    await host
      .deleteSubject({ subject: buildSubject(id), operation_id: ids.next(), step: 'forget', epoch: 0, fence })
      .catch((error: unknown) => {
        if (!(error instanceof HostFailure)) throw error
      })
  }
}
