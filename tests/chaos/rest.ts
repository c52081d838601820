import { call } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { rests } from './check.ts'
import type { History } from './history.ts'

const REPLAYS_MAX = 500

export async function checkRows(service: Service, history: History): Promise<void> {
  await checkAccepted(service, history)
  const twice = await service.query('select key from workspaces where deleted_at is null group by organization_id, key having count(*) > 1')
  if (twice.length > 0) history.violate('I9: a key has two live workspaces', { twice })
  await checkRoom(service, history)
}

/** Checks N1 and I8: every accepted operation exists, has ended, and still answers its request. */
async function checkAccepted(service: Service, history: History): Promise<void> {
  const rows = await service.query<{ id: string; completed: boolean }>('select id, completed_at is not null as completed from operations')
  const completed = new Map(rows.map(({ id, completed }) => [id, completed]))
  for (const { path, operation_id } of history.accepted)
    if (completed.get(operation_id) !== true)
      history.violate('N1: an accepted operation is gone, or is not over', { path, operation_id, is: completed.get(operation_id) ?? null })
  for (const { path, options, operation_id } of history.accepted.slice(-REPLAYS_MAX)) {
    const { status, body } = await call<{ id?: string; operation?: { id: string } | null }>(`${service.base_url}${path}`, {
      token: service.api_key,
      ...options,
    })
    const again = body.operation?.id ?? body.id
    if (again !== operation_id) history.violate('I8: a repeat named another operation', { path, operation_id, status, body })
    history.count('repeated')
  }
}

/** Checks I10: capacity is granted exactly to running workspaces, and each resident one has a machine. */
async function checkRoom(service: Service, history: History): Promise<void> {
  await rests(history, 'I10: rows, room and machines do not agree', async () => {
    const rows = await service.query<{ id: string; runs: boolean; resident: boolean; granted: boolean }>(ROOM)
    const wrong = rows.filter(({ runs, granted }) => runs !== granted)
    const resident = rows.filter((row) => row.runs && row.resident).map(({ id }) => id)
    const machines = (await service.inventory()).machines.map(({ subject }) => subject.id)
    const same = JSON.stringify(resident.sort()) === JSON.stringify(machines.sort())
    return wrong.length === 0 && same ? null : { wrong, resident, machines }
  })
}

const ROOM = `
  select id, observed_state = 'running' as runs, residency = 'resident' as resident, grant_memory_mib is not null as granted
  from workspaces where observed_state <> 'deleted'`
