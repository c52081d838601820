import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import type { History } from './history.ts'

const REST_MS = 180_000

export async function watch(service: Service, history: History, stopped: () => boolean): Promise<void> {
  while (!stopped()) {
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const { machines } = await service.inventory().catch(() => ({ machines: [] })) // hostd may be down
    const ids = machines.map(({ subject }) => subject.id)
    if (new Set(ids).size !== ids.length) history.violate('R3: a workspace has two machines', { machines })
    const twice = await service
      .query<{ workspace_id: string }>(`select workspace_id from operations where completed_at is null group by 1 having count(*) > 1`)
      .catch(() => [])
    if (twice.length > 0) history.violate('I1: a workspace has two operations', { twice })
  }
}

export async function checkRest(service: Service, history: History): Promise<void> {
  await rests(history, 'I2: operations do not end', async () => {
    const [row] = await service.query<{ count: number }>('select count(*)::integer as count from operations where completed_at is null')
    return row?.count === 0 ? null : row
  })
  await rests(history, 'I6, I7: the doctor finds something', async () => {
    const bad = await ailments(service)
    return bad.length === 0 ? null : bad
  })
}

/** Repeats `ask` until it returns null, or else reports its last result as a violation. */
export async function rests(history: History, what: string, ask: () => Promise<unknown>): Promise<void> {
  let last: unknown = null
  await until(what, REST_MS, async () => {
    last = await ask().catch((error: unknown) => String(error))
    if (last !== null) await new Promise((resolve) => setTimeout(resolve, 1000))
    return last === null
  }).catch(() => history.violate(what, { last }))
}

interface Finding {
  check: string
  level: string
  text: string
}

/** Checks that depend on the computer, or on warm sandboxes in the making. */
const IGNORED_CHECKS = new Set(['data_disk', 'file_systems', 'ready_ahead'])

export async function ailments(service: Service): Promise<Finding[]> {
  const text = await service.admin('doctor', '--json').catch((error: unknown) => (error as { stdout: string }).stdout)
  const { findings } = JSON.parse(text) as { findings: Finding[] }
  return findings.filter(({ check, level }) => level !== 'ok' && !IGNORED_CHECKS.has(check))
}
