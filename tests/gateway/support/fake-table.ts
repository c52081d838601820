import { AGENT_PROTOCOLS } from '../../../contract/internal/agent.ts'
import type { ShowResidency } from '../../../service/cell/machines/show-residency.ts'
import type { GoneReason, MachineTable, WorkspaceEntry } from '../../../service/cell/machines/table.ts'

/** get() returns `stale` until fresh() is called, as if a NOTIFY were on its way. */
export class FakeTable implements MachineTable {
  readonly entries = new Map<string, WorkspaceEntry>()
  readonly stale = new Map<string, WorkspaceEntry>()
  readonly touched: string[] = []
  readonly held: string[] = []
  lost_ms = 0
  fresh_asked = 0

  get(id: string): WorkspaceEntry | undefined {
    return this.stale.get(id) ?? this.entries.get(id)
  }
  load(id: string): Promise<WorkspaceEntry | undefined> {
    return Promise.resolve(this.get(id))
  }
  fresh(id: string): Promise<WorkspaceEntry | undefined> {
    this.fresh_asked += 1
    this.stale.delete(id)
    return Promise.resolve(this.entries.get(id))
  }
  touch(id: string, kind: string): void {
    this.touched.push(`${kind} ${id}`)
  }
  holdAwake(id: string, what: 'call' | 'stream'): Disposable {
    const name = `${what} ${id}`
    this.held.push(name)
    return { [Symbol.dispose]: () => void this.held.splice(this.held.indexOf(name), 1) }
  }
  uses: MachineTable['seen'] = () => undefined
  seen(id: string): ReturnType<MachineTable['seen']> {
    return this.uses(id)
  }
  keepalive(): void {
    throw new Error('a keepalive is written to the row before it is answered')
  }
  databaseLostMs(): number {
    return this.lost_ms
  }

  set(id: string, change: Partial<WorkspaceEntry>): void {
    const entry = this.entries.get(id)
    if (entry) this.entries.set(id, { ...entry, ...change })
  }
}

export const inUse: ShowResidency = () => ({
  state: 'resident',
  reason: 'use',
  park_after_seconds: 5,
  park_after_by: 'cell',
  park_at: null,
})

export interface Life {
  entry: WorkspaceEntry
  end(reason: GoneReason): void
}

export function runningEntry(id: string, cell_id: string, address: string): Life {
  const life = new AbortController()
  const entry: WorkspaceEntry = {
    id,
    organization_id: '018f0000-0000-7000-8000-0000000000aa',
    project_id: '018f0000-0000-7000-8000-0000000000bb',
    observed_state: 'running',
    desired_state: 'running',
    ownership_epoch: 3,
    lifetime: 'persistent',
    mode: 'processful',
    disk_layout: 'layered',
    deleted_at: null,
    cell_id,
    here: true,
    hold: null,
    checkpoint_id: null,
    layers: [],
    tokens_revoked_before: null,
    template_env: { FROM: 'template', LOWEST: 'template' },
    inputs: { FROM: 'input', MIDDLE: 'input' },
    has_secrets: false,
    grants: null,
    residency: 'resident',
    active_at: new Date(0),
    keepalive_until: null,
    background: null,
    suspend_requested_at: null,
    machine: {
      address,
      agent_key: 'agent-key',
      epoch: 3,
      fence: 1,
      state: 'running',
      agent_protocol: AGENT_PROTOCOLS.current,
      freezer_file: null,
      stood_still: 0,
    },
    gone: life.signal,
  }
  return { entry, end: (reason) => life.abort(reason) }
}
