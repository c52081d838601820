import { sql } from 'kysely'
import pino from 'pino'
import { startChainWorker } from '../../service/api/records/audit/linker.ts'
import { CHAIN_START, firstBroken } from '../../service/core/changes/chain.ts'
import { eventsAfter } from '../../service/core/changes/chain-store.ts'
import { mutate, type ChangeTx } from '../../service/core/changes/mutate.ts'
import { updateOrganization } from '../../service/core/people/organizations/store.ts'
import type { Db } from '../../service/db/database.ts'
import { world, type World } from '../api/support.ts'
import { measure, printSeconds, timed } from './harness.ts'

const BATCH = 20
const PER_SECOND = 200
const SECONDS = 20

/** Without fsync only the work remains; with fsync it is as in an installation. */
export async function auditRows(): Promise<void> {
  await using w = await world()
  const { api: db } = w.database
  const linker = startChainWorker({ db, logger: pino({ level: 'silent' }) })
  for (const is_synced of [false, true]) {
    await setSync(w.database.superuser, is_synced)
    await measure(
      {
        row: 0,
        name: is_synced ? 'audit' : 'audit-unsynced',
        title: `${BATCH} changes with their records against the same without${is_synced ? '' : ', nothing synced'}`,
        bar: is_synced ? { at_most: 1.1 } : null,
      },
      {
        reference: () => timed(() => times(BATCH, () => unrecorded(db, w.b.organization_id))),
        subject: () => timed(() => times(BATCH, () => recorded(w, w.b.organization_id))),
      },
      { warm_ups: 10, pairs: 21 },
    )
  }
  const { behind_ms, others_ms } = await flood(w)
  const end = firstBroken(CHAIN_START, await eventsAfter(db, w.a.organization_id, 0, 100_000))
  if ('why' in end || end.sequence < PER_SECOND * SECONDS) throw new Error(`the chain is not whole: ${JSON.stringify(end)}`)
  printSeconds('audit-linked', `until the last of ${PER_SECOND} changes a second in one organization is linked`, [behind_ms], 1)
  printSeconds('audit-others', 'p99 of changes of another organization meanwhile', [others_ms], 0.1)
  await linker.close()
}

/** Test databases run without fsync. */
async function setSync(db: Db, is_synced: boolean): Promise<void> {
  for (const name of ['fsync', 'full_page_writes']) await sql.raw(`alter system set ${name} = ${is_synced ? 'on' : 'off'}`).execute(db)
  await sql`select pg_reload_conf()`.execute(db)
  const shown = async () => (await sql<{ fsync: string }>`show fsync`.execute(db)).rows[0]?.fsync
  while ((await shown()) !== (is_synced ? 'on' : 'off')) await new Promise((resolve) => setTimeout(resolve, 10))
}

async function times(count: number, work: () => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n++) await work()
}

let named = 0
const rename = (tx: ChangeTx, id: string) => updateOrganization(tx, id, { name: `bench ${named++}` })

function unrecorded(db: Db, id: string): Promise<void> {
  return db.transaction().execute((tx) => rename(tx as unknown as ChangeTx, id))
}

function recorded({ database, ids, clock }: World, id: string): Promise<void> {
  const by = { actor: { kind: 'service', name: 'setup' }, ids, now: clock.now(), request_id: null, source_address: null } as const
  const subject = { kind: 'organization', id, organization_id: id, project_id: null } as const
  return mutate(database.api, by, 'bench.rename', (tx) => rename(tx, id), subject)
}

/** Changes come at a fixed rate. Rows differ, because changes of one row would wait for each other. */
async function flood(w: World): Promise<{ behind_ms: number; others_ms: number }> {
  const { organization_id } = w.a
  const by = { actor: { kind: 'service', name: 'setup' }, ids: w.ids, request_id: null, source_address: null } as const
  const one = (n: number) =>
    mutate(w.database.api, { ...by, now: w.clock.now() }, 'bench.flood', async () => undefined, {
      kind: 'plan',
      id: String(n),
      organization_id,
      project_id: null,
    })
  const begun: Promise<unknown>[] = []
  const others: number[] = []
  const began = performance.now()
  for (let n = 0; n < PER_SECOND * SECONDS; n++) {
    begun.push(one(n))
    if (n % 20 === 0) others.push(await timed(() => recorded(w, w.b.organization_id)))
    const early_ms = began + (n * 1000) / PER_SECOND - performance.now()
    if (early_ms > 1) await new Promise((resolve) => setTimeout(resolve, early_ms))
  }
  await Promise.all(begun)
  const took_s = (performance.now() - began) / 1000
  process.stdout.write(`${Math.round((PER_SECOND * SECONDS) / took_s)} changes a second\n`)
  const behind_ms = await timed(async () => {
    for (;;) {
      const { count } = await w.database.superuser.selectFrom('audit_events').select((e) => e.fn.countAll<number>().as('count')).where('sequence', 'is', null).executeTakeFirstOrThrow() // prettier-ignore
      if (count === 0) return
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })
  others.sort((a, b) => a - b)
  return { behind_ms, others_ms: others[Math.floor(others.length * 0.99)] ?? Number.NaN }
}
