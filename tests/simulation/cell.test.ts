import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { sql } from 'kysely'
import type { ObservedState } from '../../contract/states/machine.ts'
import type { OperationKind } from '../../contract/states/operation.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import type { WorkspaceEntry } from '../../service/cell/machines/table.ts'
import type { Verb } from '../../service/cell/host/fake/verb-queue.ts'
import { assertNothingIsLeft } from '../engine/invariants.ts'
import { DeletedError } from '../engine/intentions.ts'
import { depth } from '../support/depth.ts'
import { generatorOf, testSeed } from '../support/seed.ts'
import { createWorld, type Process, type World } from '../engine/world.ts'
import { adoptRelative, forkAndAdopt, isOvertaken, type Family } from './adoption.ts'
import { everything, known, unrest } from './stuck.ts'

// Each seed is a history against the cell's real engine and database. Afterwards nothing may be in progress, and every live workspace must
// have its files, and its memory if its machine never died.

const SEEDS = Number(process.env['BERTH_SIMULATION_SEEDS'] ?? depth({ short: 12, long: 1000 }))
const FIRST_SEED = Number(process.env['BERTH_SIMULATION_FIRST_SEED'] ?? testSeed())
/** A history mostly waits. */
const AT_ONCE = 8
const ACTIONS = 40
/** Past this limit the wait continues, so the error tells whether the history came to rest later. */
const UNREST_MS = 12_000
/** A slow computer gets as many polls, and more time for them. */
const QUIET_LOOK_MS = 15
/** Operations that start a workspace again, by its state. */
const STARTS: Partial<Record<ObservedState, OperationKind>> = { suspended: 'resume', failed: 'open' }
/** So long that no regular comparison hides an operation that waits for one. */
const NEVER_COMPARED_REGULARLY_MS = 3_600_000
const VERBS: Verb[] = [
  'start',
  'restore',
  'connect',
  'checkpoint',
  'unpause',
  'freeze',
  'thaw',
  'stop',
  'cloneCheckpoint',
  'deleteCheckpoints',
  'deleteDisks',
  'fence',
  'deleteSubject',
]

const moved = { freeze: 0, hibernate: 0, wake: 0 }
/** Machines that fit in every second history, in which requests evict machines. */
const FEW = 3
let evicted = 0
let given_up = 0
let adopted = 0

describe('after any history everything is consistent and no file is lost', { concurrency: AT_ONCE }, () => {
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed += 1) {
    test(`BERTH_SIMULATION_FIRST_SEED=${seed} BERTH_SIMULATION_SEEDS=1`, async () => {
      const is_crowded = seed % 2 === 0
      const memory_mib = is_crowded ? FEW * 512 : 1e6
      await using world = await createWorld({ latency_ms: 1, capacity: { cpu_millis: 1e6, memory_mib, disk_gib: 1e6 } })
      await new History(world, seed, is_crowded).play()
    })
  }
})

test(
  'these histories froze, hibernated and woke machines, deleted snapshots, and adopted forks',
  { skip: SEEDS < 6 && 'so few histories need not have all of it' },
  () => {
    for (const count of Object.values(moved)) assert.ok(count > 0, JSON.stringify(moved))
    assert.ok(given_up > 0)
    assert.ok(adopted > 0)
    assert.ok(evicted > 0)
  },
)

class History {
  private readonly world: World
  private readonly random: () => number
  private readonly is_crowded: boolean
  private process: Process | null = null
  private readonly workspaces = new Set<string>()
  private readonly marks = new Map<string, string>()
  private readonly died = new Set<string>()
  private troubled = true
  private readonly told: string[] = []

  constructor(world: World, seed: number, is_crowded: boolean) {
    this.world = world
    this.is_crowded = is_crowded
    this.random = generatorOf(seed)
  }

  async play(): Promise<void> {
    if (this.is_crowded) this.crowd() // first, so that a guest rests even when its start's answer is lost
    this.makeTrouble()
    this.process = await this.startProcess()
    try {
      for (let count = 0; count < ACTIONS; count += 1) {
        await this.act()
        await this.mark()
        await new Promise((resolve) => setTimeout(resolve, this.random() * 30))
      }
      this.troubled = false
      await this.rest()
      await this.giveUp() // for a history without this action: on a slow computer few snapshots end in time
      if (!this.is_crowded) adopted += await forkAndAdopt(this.family(), () => this.mark()) // for a history without adoptions, for the same reason
      await this.rest()
      await this.checkFiles()
      await this.rest()
    } catch (error) {
      throw new Error(`History: ${this.told.join(', ')}; at its end: ${JSON.stringify(known(this.process))}`, { cause: error })
    }
  }

  /** In a crowded history the cell evicts machines; in others this history alone parks them. */
  private async startProcess(): Promise<Process> {
    const ask_activity = () => Promise.resolve({ running: 0, busy_until: null, last_ended_at: null, commands: [] })
    const park_after = { freeze_after_seconds: 0, hibernate_after_seconds: this.is_crowded ? 3600 : 0 }
    const process = await this.world.startProcess({ ask_activity, park_after, comparing: { regular_ms: NEVER_COMPARED_REGULARLY_MS } })
    const { parking } = process
    const { hibernate } = parking
    parking.hibernate = (entry, why) => {
      if (why === 'room') evicted += 1
      return hibernate(entry, why)
    }
    return process
  }

  /** The host refuses machines beyond its capacity, and guests rest, so that they can be evicted. */
  private crowd(): void {
    const { host } = this.world
    for (const verb of ['start', 'restore'] as const) {
      host.intercept(verb, 'before', async ({ subject }) => {
        const { machines } = await host.inventory()
        const others = machines.filter((machine) => machine.subject.id !== subject.id).length
        if (others >= FEW) throw new HostFailure('no_capacity', 'simulated', { retryable: true })
      })
      host.intercept(verb, 'after', ({ subject }) => host.guest(subject.id).rest())
    }
  }

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
    if (roll < 0.17) return this.open()
    if (roll < 0.52) return this.intend()
    if (roll < 0.72) return this.park()
    if (roll < 0.8) return this.kill()
    if (roll < 0.87) return this.restartProcess()
    if (roll < 0.93) return this.cutDatabase()
    if (roll < 0.97) return this.tell('hostd restarts', () => this.world.host.restart())
    for (const id of this.workspaces) this.died.add(id)
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

  private async intend(): Promise<void> {
    const id = this.pick()
    if (id === undefined) return
    const row = await this.world.workspace(id)
    const held = await this.world.db.selectFrom('workspace_holds').selectAll().where('workspace_id', '=', id).executeTakeFirst()
    if (row.deleted_at !== null) return
    const kinds: Record<string, string[]> = {
      running: ['suspend', 'suspend', 'fork', 'snapshot', 'give_up', 'adopt', 'adopt'],
      suspended: ['resume', 'resume', 'fork', 'snapshot', 'give_up', 'restore', 'adopt', 'adopt'],
      failed: ['open'],
    }
    const holder = held && (await this.world.operation(held.operation_id))
    const of_holder = holder?.source_workspace_id === id ? ['fork'] : [] // a fork joins another fork
    const possible = held === undefined ? (kinds[row.observed_state] ?? []) : of_holder
    const kind = this.random() < 0.12 ? 'delete' : possible[Math.floor(this.random() * possible.length)]
    if (kind === undefined) return
    this.told.push(`${kind} ${id.slice(-4)}`)
    if (kind === 'give_up') return this.giveUp()
    if (kind === 'adopt') {
      adopted += await adoptRelative(this.family())
      return
    }
    if (kind === 'restore') this.died.add(id) // such a restore discards the memory
    try {
      if (kind === 'restore') await this.world.operate(id, kind, { input: { checkpoint_id: row.checkpoint_id, memory: false } })
      else if (kind === 'fork') this.workspaces.add((await this.world.fork(id)).workspace_id)
      else await this.world.operate(id, kind)
    } catch (error) {
      // Another operation may hold the workspace since the read, or the fork may have failed: the API would refuse, or try again.
      if (!isOvertaken(error) && !(error instanceof DeletedError)) throw error
    }
  }

  private family(): Family {
    const { world, workspaces, marks, died, told } = this
    return { world, workspaces, marks, died, told, random: () => this.random() }
  }

  /** Like the API, deletes a snapshot whose workspace no operation holds. No lock: only this history starts operations. */
  private async giveUp(): Promise<void> {
    const { db, clock } = this.world
    const { numAffectedRows } = await sql`update checkpoints set deleted_at = ${clock.now()} where id = (
      select c.id from checkpoints c join workspaces w on w.id = c.workspace_id
      where c.kind = 'snapshot' and c.deleted_at is null and w.checkpoint_id is distinct from c.id
        and not exists (select from workspace_holds h where h.workspace_id = w.id) limit 1)`.execute(db)
    given_up += Number(numAffectedRows ?? 0)
  }

  /** Does not wait for the end. */
  private async park(): Promise<void> {
    const runs = this.process?.table.known().filter(({ observed_state }) => observed_state === 'running') ?? []
    const entry = runs[Math.floor(this.random() * runs.length)]
    if (this.process === null || entry === undefined) return
    const { parking, table } = this.process
    const moves = { freeze: () => parking.freeze(entry), hibernate: () => parking.hibernate(entry), wake: () => this.wake(entry.id) }
    const asleep = entry.residency !== 'resident' || entry.machine?.state === 'frozen'
    const likely = asleep ? (['wake', 'wake', 'wake', 'hibernate'] as const) : (['freeze', 'hibernate', 'hibernate', 'wake'] as const)
    const kind = likely[Math.floor(this.random() * likely.length)] ?? 'wake'
    this.told.push(`${kind} ${entry.id.slice(-4)}`)
    void moves[kind]().then(
      () => this.note(kind, entry.residency, table.get(entry.id)),
      () => undefined, // a real caller would get the error, and call again
    )
  }

  private note(kind: keyof typeof moved, before: string, now: WorkspaceEntry | undefined): void {
    const came = kind === 'freeze' ? now?.machine?.state === 'frozen' : (now?.residency === 'hibernated') !== (before === 'hibernated')
    if (came) moved[kind] += 1
  }

  private async wake(id: string): Promise<void> {
    const { process } = this
    if (process === null) return
    using _ = process.table.holdAwake(id, 'call')
    const entry = await process.table.fresh(id)
    if (entry?.observed_state === 'running') await process.parking.wake(entry)
  }

  private async parkOnceMore(id: string): Promise<void> {
    const { process } = this
    const entry = await process?.table.fresh(id)
    if (process === null || entry === undefined) return
    if (entry.residency === 'resident') {
      await process.parking.freeze(entry)
      this.note('freeze', 'resident', process.table.get(id))
      await process.parking.hibernate(process.table.get(id) ?? entry)
    }
    // A machine whose save has just failed is not saved again for a minute.
    if ((await this.world.workspace(id)).residency === 'resident') return this.wake(id)
    this.note('hibernate', 'resident', process.table.get(id))
    await this.wake(id)
    assert.equal((await this.world.workspace(id)).residency, 'resident')
    this.note('wake', 'hibernated', process.table.get(id))
  }

  private async kill(): Promise<void> {
    const { machines } = await this.world.host.inventory()
    const machine = machines[Math.floor(this.random() * machines.length)]
    if (machine === undefined) return
    this.died.add(machine.subject.id)
    this.tell(`${machine.subject.id.slice(-4)} dies`, () => this.world.host.kill(machine.subject.id))
  }

  private async restartProcess(): Promise<void> {
    this.told.push('the cell restarts')
    if (this.random() < 0.7) await this.process?.kill()
    else await this.process?.close()
    this.process = await this.startProcess()
  }

  private async cutDatabase(): Promise<void> {
    this.told.push('the database drops its connections')
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`
      .execute(this.world.db)
      .catch(() => undefined) // the pool of this connection may have been cut too
  }

  private pick(): string | undefined {
    return [...this.workspaces][Math.floor(this.random() * this.workspaces.size)]
  }

  /** Writes a mark to disk and memory, which no later commit may lose. */
  private async mark(): Promise<void> {
    const rows = await this.world.db
      .selectFrom('workspaces')
      .selectAll()
      .where('observed_state', '=', 'running')
      .where('residency', '=', 'resident')
      .execute()
      .catch(() => [])
    const { machines } = await this.world.host.inventory()
    const runs = new Map(machines.filter(({ state }) => state === 'running').map(({ subject, epoch }) => [subject.id, epoch]))
    for (const { id, ownership_epoch } of rows) {
      if (this.marks.has(id) || runs.get(id) !== ownership_epoch) continue
      try {
        const { files, memory } = this.world.host.guest(id)
        const mark = files.get('/mark') ?? id
        this.marks.set(id, mark)
        for (const place of [files, memory]) place.set('/mark', mark)
      } catch {
        // the machine died before the write
      }
    }
  }

  private async rest(): Promise<void> {
    let waits_for: unknown = 'nothing'
    let stuck: unknown
    let looks = 0
    const began_ms = performance.now()
    const lasted_ms = () => performance.now() - began_ms
    const text = (lasted: string) => `Not at rest ${lasted}: ${JSON.stringify({ looks, stuck, waits_for })}`
    try {
      await this.world.until(async () => {
        waits_for = await unrest(this.world, this.process)
        looks += 1
        const is_late = lasted_ms() > UNREST_MS && looks > UNREST_MS / QUIET_LOOK_MS
        if (waits_for !== null && is_late) stuck ??= { after_ms: lasted_ms(), waits_for, ...(await everything(this.world, this.process)) }
        return waits_for === null
      })
    } catch (cause) {
      throw new Error(text('at all'), { cause })
    }
    if (stuck !== undefined) throw new Error(text(`before ${lasted_ms()} ms were over`))
    await this.process?.engine.watch()?.sweep()
    await this.process?.engine.watch()?.sweep() // removes the files that the first sweep released
    await assertNothingIsLeft(this.world)
  }

  private async checkFiles(): Promise<void> {
    for (const id of this.workspaces) {
      const row = await this.world.workspace(id)
      if (row.deleted_at !== null) continue
      const next = STARTS[row.observed_state]
      if (next !== undefined) {
        const { state, error } = await this.world.ended(await this.world.operate(id, next))
        assert.deepEqual([state, error], ['succeeded', null])
      } else assert.equal(row.observed_state, 'running')
      await this.parkOnceMore(id)
      const mark = this.marks.get(id)
      if (mark === undefined) continue
      const { files, memory } = this.world.host.guest(id)
      assert.equal(files.get('/mark'), mark)
      if (!this.died.has(id)) assert.equal(memory.get('/mark'), mark)
    }
  }
}
