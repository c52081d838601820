import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { HostFailure } from '../../service/cell/links/hostd.ts'
import type { Verb } from '../../service/cell/links/fake/turns.ts'
import { assertNothingIsLeft } from '../engine/invariants.ts'
import { createWorld, type Process, type World } from '../engine/world.ts'

// One seed is one history: random intentions, deaths, restarts and lost answers against the real engine of the cell and a real
// database. Afterwards everything must have come to rest, and every live workspace must still have its files.

const SEEDS = Number(process.env['BERTH_SIMULATION_SEEDS'] ?? 6)
const FIRST_SEED = Number(process.env['BERTH_SIMULATION_FIRST_SEED'] ?? 1)
const ACTIONS = 40
const VERBS: Verb[] = [
  'start',
  'restore',
  'connect',
  'checkpoint',
  'unpause',
  'stop',
  'cloneCheckpoint',
  'deleteDisks',
  'fence',
  'deleteWorkspace',
]

for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed += 1) {
  test(`seed ${seed}: after any history everything is consistent and no file is lost`, async () => {
    await using world = await createWorld({ latency_ms: 1, capacity: { cpu_millis: 1e6, memory_mib: 1e6, disk_gib: 1e6 } })
    await new History(world, seed).play()
  })
}

class History {
  private readonly world: World
  private readonly random: () => number
  private process: Process | null = null
  private readonly workspaces = new Set<string>()
  /** Those whose files have been marked, and what the mark is. */
  private readonly marks = new Map<string, string>()
  private troubled = true
  private readonly told: string[] = []

  constructor(world: World, seed: number) {
    this.world = world
    this.random = mulberry32(seed)
  }

  async play(): Promise<void> {
    this.makeTrouble()
    this.process = await this.world.startProcess()
    try {
      for (let count = 0; count < ACTIONS; count += 1) {
        await this.act()
        await this.mark()
        await new Promise((resolve) => setTimeout(resolve, this.random() * 30))
      }
      this.troubled = false
      await this.rest()
      await this.checkFiles()
      await this.rest()
    } catch (error) {
      throw new Error(`History: ${this.told.join(', ')}`, { cause: error })
    }
  }

  /** Verbs fail, or their answers are lost. */
  private makeTrouble(): void {
    const { host } = this.world
    for (const verb of VERBS) {
      host.intercept(verb, 'before', () => {
        if (this.troubled && this.random() < 0.04) throw new HostFailure('internal', 'simulated', { retryable: true })
      })
      host.intercept(verb, 'after', () => {
        if (this.troubled && this.random() < 0.06) throw new HostFailure('unreachable', 'simulated', { retryable: true })
      })
    }
  }

  private async act(): Promise<void> {
    const roll = this.random()
    if (roll < 0.2) return this.open()
    if (roll < 0.72) return this.intend()
    if (roll < 0.8) return this.kill()
    if (roll < 0.87) return this.restartProcess()
    if (roll < 0.93) return this.cutDatabase()
    if (roll < 0.97) return this.tell('hostd restarts', () => this.world.host.restart())
    this.tell('the computer restarts', () => this.world.host.reboot())
  }

  private tell(what: string, work: () => void): void {
    this.told.push(what)
    work()
  }

  private async open(): Promise<void> {
    const { workspace_id } = await this.world.open()
    this.told.push(`open ${workspace_id.slice(-4)}`)
    this.workspaces.add(workspace_id)
  }

  /** What a caller may ask of a random workspace in its present state, as the API would let it. */
  private async intend(): Promise<void> {
    const id = this.pick()
    if (id === undefined) return
    const row = await this.world.workspace(id)
    const held = await this.world.db.selectFrom('workspace_holds').selectAll().where('workspace_id', '=', id).executeTakeFirst()
    if (row.deleted_at !== null) return
    const kinds: Record<string, string[]> = {
      running: ['suspend', 'suspend', 'fork', 'snapshot'],
      suspended: ['resume', 'resume', 'fork', 'snapshot'],
      failed: ['open'],
    }
    const possible = held === undefined ? (kinds[row.observed_state] ?? []) : []
    const kind = this.random() < 0.12 ? 'delete' : possible[Math.floor(this.random() * possible.length)]
    if (kind === undefined) return
    this.told.push(`${kind} ${id.slice(-4)}`)
    try {
      if (kind === 'fork') this.workspaces.add((await this.world.fork(id)).workspace_id)
      else await this.world.operate(id, kind)
    } catch (error) {
      if (!isTakenHold(error)) throw error // somebody holds it since we looked: the API would refuse
    }
  }

  private async kill(): Promise<void> {
    const { machines } = await this.world.host.inventory()
    const machine = machines[Math.floor(this.random() * machines.length)]
    if (machine !== undefined) this.tell(`${machine.workspace_id.slice(-4)} dies`, () => this.world.host.kill(machine.workspace_id))
  }

  private async restartProcess(): Promise<void> {
    this.told.push('the cell restarts')
    if (this.random() < 0.7) await this.process?.kill()
    else await this.process?.close()
    this.process = await this.world.startProcess()
  }

  private async cutDatabase(): Promise<void> {
    this.told.push('the database drops its connections')
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`
      .execute(this.world.db)
      .catch(() => undefined) // the connection that asks may be of a pool that is cut, too
  }

  private pick(): string | undefined {
    return [...this.workspaces][Math.floor(this.random() * this.workspaces.size)]
  }

  /** Leaves a mark on the disk of what runs, once: from its first commit on it may not be lost. */
  private async mark(): Promise<void> {
    const rows = await this.world.db
      .selectFrom('workspaces')
      .selectAll()
      .where('observed_state', '=', 'running')
      .execute()
      .catch(() => [])
    for (const { id } of rows) {
      if (this.marks.has(id)) continue
      try {
        const { files } = this.world.host.guest(id)
        this.marks.set(id, files.get('/mark') ?? id)
        if (!files.has('/mark')) files.set('/mark', id)
      } catch {
        // it died before we came
      }
    }
  }

  /** Everything that was asked for ends, and rows and host agree. */
  private async rest(): Promise<void> {
    await this.world.until(async () => {
      if (this.process?.engine.isReady() !== true) return false
      const open = await this.world.db.selectFrom('operations').select('id').where('completed_at', 'is', null).execute()
      return open.length === 0
    })
    await this.process?.engine.watch()?.sweep()
    await this.process?.engine.watch()?.sweep() // files of what the first one settled
    await assertNothingIsLeft(this.world)
  }

  /** Whatever is not deleted can run, and has its mark. */
  private async checkFiles(): Promise<void> {
    for (const id of this.workspaces) {
      const row = await this.world.workspace(id)
      if (row.deleted_at !== null) continue
      const next = { suspended: 'resume', failed: 'open' }[row.observed_state]
      if (next !== undefined) {
        const { state, error } = await this.world.ended(await this.world.operate(id, next))
        assert.deepEqual([state, error], ['succeeded', null])
      } else assert.equal(row.observed_state, 'running')
      if (this.marks.has(id)) assert.equal(this.world.host.guest(id).files.get('/mark'), this.marks.get(id))
    }
  }
}

function isTakenHold(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '23505'
}

/** Small seeded generator: the same seed, the same history of intentions. */
function mulberry32(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
