import pg from 'pg'
import { isResponsive } from './responsive.ts'
import { connectionConfig, type DatabaseOptions } from './options.ts'

export type Channels = ReadonlyMap<string, Channel>

export type Channel =
  | 'berth_operation'
  | 'berth_workspace'
  | 'berth_checkpoint'
  | 'berth_egress'
  | 'berth_port'
  | 'berth_revocation'
  | 'berth_revoked'
  | 'berth_api_key'
  | 'berth_signing_key'
  | 'berth_service_key'
  | 'berth_membership'
  | 'berth_layer_list'
  | 'berth_template_capture'

export const API_CHANNELS: Channels = new Map<string, Channel>([
  ...(['berth_operation', 'berth_api_key', 'berth_signing_key', 'berth_service_key', 'berth_revoked'] as const).map(
    (channel) => [channel, channel] as const,
  ),
  ['berth_revocation_api', 'berth_revocation'],
])

/** Named as in the database function cell_channel. */
export function cellChannels(cell_id: string): Channels {
  const told_of_cells = [
    'berth_operation',
    'berth_workspace',
    'berth_checkpoint',
    'berth_egress',
    'berth_port',
    'berth_revocation',
  ] as const
  const of_cells = told_of_cells.flatMap((channel) =>
    [cell_id.replaceAll('-', ''), 'unplaced'].map((suffix) => [`${channel}_${suffix}`, channel] as const),
  )
  const of_all = (['berth_api_key', 'berth_signing_key', 'berth_membership', 'berth_layer_list', 'berth_template_capture'] as const).map(
    (channel) => [channel, channel] as const,
  )
  return new Map<string, Channel>([...of_cells, ...of_all])
}

/**
 * A caller that subscribes before it reads misses no change.
 * After a reconnect every subscriber is called with null, because anything may have changed.
 */
export interface Listener {
  on(channel: Channel, heard: (id: string | null) => void): () => void
  lost_ms(): number
  /** Process id of the backend; null: no connection. */
  pid(): number | null
  close(): Promise<void>
}

const RECONNECT_MS = 500
const PROBE_MS = 5000

export async function openListener(options: DatabaseOptions, channels: Channels): Promise<Listener> {
  const subscribers = new Map<Channel, Set<(id: string | null) => void>>()
  let client: pg.Client | null = null
  let closed = false
  let lost_since: number | null = null
  let pid: number | null = null
  let retry: NodeJS.Timeout | undefined

  const tell = (channel: Channel, id: string | null) => {
    for (const heard of subscribers.get(channel) ?? []) heard(id)
  }
  const lose = (which: pg.Client) => {
    if (client !== which) return
    client = null
    pid = null
    lost_since ??= performance.now()
    void which.end().catch(() => undefined) // only closes the socket
    if (!closed) retry = setTimeout(() => void connect().catch(() => undefined), RECONNECT_MS)
  }
  const connect = async () => {
    const next = new pg.Client(connectionConfig(options))
    client = next
    next.on('error', () => lose(next))
    next.on('end', () => lose(next))
    next.on('notification', ({ channel: name, payload = null }) => {
      const channel = channels.get(name)
      if (channel !== undefined) tell(channel, payload)
    })
    try {
      await next.connect()
      await next.query([...channels.keys()].map((name) => `listen ${name}`).join('; '))
      const { rows } = await next.query<{ pid: number }>('select pg_backend_pid() as pid')
      pid = rows[0]?.pid ?? null
    } catch (error) {
      lose(next)
      throw error
    }
    lost_since = null
    for (const channel of subscribers.keys()) tell(channel, null)
  }
  const prove = async () => {
    const current = client
    if (!current || lost_since !== null) return
    if (!(await isResponsive(current, PROBE_MS))) lose(current)
  }
  const probe = setInterval(() => void prove(), PROBE_MS)
  probe.unref()

  const close = async () => {
    closed = true
    clearInterval(probe)
    clearTimeout(retry)
    await client?.end().catch(() => undefined)
  }
  await connect().catch(async (error: unknown) => {
    await close()
    throw error
  })
  return {
    on(channel, heard) {
      if (![...channels.values()].includes(channel)) throw new Error(`This process does not listen to ${channel}`)
      const set = subscribers.get(channel) ?? new Set()
      subscribers.set(channel, set.add(heard))
      return () => void set.delete(heard)
    },
    pid: () => pid,
    lost_ms: () => (lost_since === null ? 0 : performance.now() - lost_since),
    close,
  }
}
