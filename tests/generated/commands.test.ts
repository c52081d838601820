import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { decide, LOCKED_COMMANDS, type Command, type LockRole, type CommandFacts } from '../../contract/states/commands.ts'
import { OBSERVED_STATES } from '../../contract/states/machine.ts'
import { WAITS_FOR_CAPTURE } from '../../service/core/workspaces/operations/store.ts'
import { seeder, world, type Answer, type World } from '../api/support.ts'
import { said } from './app-world.ts'

let w: World
let id: string
let other: string
let operation: string
let checkpoint_id: string
before(async () => {
  w = await world()
  id = await w.running('commands')
  const forked = await w.post(`/v1/workspaces/${id}/fork`, { key: 'commands-other' })
  other = forked.body.workspace.id
  operation = forked.body.operation.id
  await w.cell.succeed(operation)
  checkpoint_id = await seeder(w.database, w.clock, w.ids).checkpoint(id)
})
after(() => w[Symbol.asyncDispose]())

let forks = 0
const SENT: Record<Command, () => Promise<Answer>> = {
  open: () => w.open('commands'),
  suspend: () => w.post(`/v1/workspaces/${id}/suspend`),
  resume: () => w.post(`/v1/workspaces/${id}/resume`),
  resume_and_wait: () => w.post(`/v1/workspaces/${id}/resume`, {}, { headers: { prefer: 'wait=1' } }),
  fork: () => w.post(`/v1/workspaces/${id}/fork`, { key: `commands-${(forks += 1)}` }),
  fork_tree: async () => {
    await treeRow()
    return w.post(`/v1/workspaces/${id}/tree/fork`, { key: `commands-${(forks += 1)}` })
  },
  snapshot: () => w.post(`/v1/workspaces/${id}/snapshot`),
  save_as_template: () => w.post(`/v1/workspaces/${id}/save-as-template`, { template_slug: 'commands' }),
  restore: () => w.post(`/v1/workspaces/${id}/restore`, { checkpoint_id }),
  delete_checkpoint: async () => {
    const another = await seeder(w.database, w.clock, w.ids).checkpoint(id)
    return w.call('DELETE', `/v1/workspaces/${id}/checkpoints/${another}`)
  },
  adopt: () => w.post(`/v1/workspaces/${id}/adopt`, { fork_workspace_id: other }),
  adopted: () => w.post(`/v1/workspaces/${other}/adopt`, { fork_workspace_id: id }),
  reset: () => w.post(`/v1/workspaces/${id}/reset`, { confirm_destructive: true }),
  delete: () => w.call('DELETE', `/v1/workspaces/${id}`),
  close: () => w.post(`/v1/workspaces/${id}/close`),
  suspend_when_idle: () => w.post(`/v1/workspaces/${id}/suspend-when-idle`, { after_seconds: 30 }),
  cancel_suspend_when_idle: () => w.call('DELETE', `/v1/workspaces/${id}/suspend-when-idle`),
  idle_policy: () => w.call('PUT', `/v1/workspaces/${id}/idle-policy`, { body: { idle_policy: 'never' } }),
  tool_token: () => w.post(`/v1/workspaces/${id}/tool-tokens`),
  attach_volume: async () => w.post(`/v1/workspaces/${id}/volumes`, { volume_id: await volume(), mount_path: '/home/user/data' }),
  detach_volume: async () => {
    const volume_id = await volume()
    await seeder(w.database, w.clock, w.ids).attachment(id, volume_id)
    return w.call('DELETE', `/v1/workspaces/${id}/volumes/${volume_id}`)
  },
  ports: () => w.call('PUT', `/v1/workspaces/${id}/ports/3000`),
}

async function treeRow(): Promise<void> {
  const now = w.clock.now()
  const tree = { workspace_id: id, root: null, created_at: now, updated_at: now }
  await w.database.superuser
    .insertInto('trees')
    .values(tree)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** The volume is not attached to the workspace. */
async function volume(): Promise<string> {
  await w.database.superuser.deleteFrom('volume_attachments').execute()
  return seeder(w.database, w.clock, w.ids).volume(w.a, w.cell_id)
}

async function arrange(seen: CommandFacts): Promise<void> {
  const { superuser: db } = w.database
  const now = w.clock.now()
  await db.updateTable('operations').set({ step: null }).where('step', '=', WAITS_FOR_CAPTURE).execute() // makes sure that no waiting fork takes over a released source
  await db.deleteFrom('workspace_holds').execute()
  await db
    .updateTable('workspaces')
    .set({
      observed_state: seen.observed_state,
      desired_state: seen.deleted ? 'deleted' : 'running',
      mode: seen.mode,
      tree_revision: seen.mode === 'file_first' ? 0 : null,
      lifetime: seen.lifetime,
      deleted_at: seen.deleted ? now : null,
      checkpoint_id,
    })
    .where('id', '=', id)
    .execute()
  await db.updateTable('workspace_keys').set({ workspace_id: id, reusable: false }).where('key', '=', 'commands').execute()
  if (seen.held_by === null) return
  const kind =
    seen.held_by === 'fork_source' || seen.held_by === 'fork_target' ? 'fork' : seen.held_by === 'adopt_source' ? 'adopt' : seen.held_by
  const target = seen.held_by === 'fork_source' || seen.held_by === 'adopt_source' ? other : id
  await db
    .updateTable('operations')
    .set({ kind, state: 'running', completed_at: null, error: null, workspace_id: target, subject_id: target })
    .where('id', '=', operation)
    .execute()
  await db.insertInto('workspace_holds').values({ workspace_id: id, operation_id: operation, gate: 'closed' }).execute()
}

const FREE: CommandFacts[] = OBSERVED_STATES.filter((state) => !state.startsWith('delet')).flatMap((observed_state) =>
  (['processful', 'file_first'] as const).flatMap((mode) =>
    (['persistent', 'session'] as const).map((lifetime) => ({ observed_state, mode, lifetime, deleted: false, held_by: null })),
  ),
)
const HELD: CommandFacts[] = (Object.keys(LOCKED_COMMANDS) as LockRole[])
  .filter((held_by) => held_by !== 'delete')
  .flatMap((held_by) =>
    (['running', 'suspended'] as const).map((observed_state): CommandFacts => ({
      observed_state,
      mode: 'processful',
      lifetime: 'persistent',
      deleted: false,
      held_by,
    })),
  )

for (const command of Object.keys(SENT) as Command[]) {
  test(`${command} says over HTTP what its table decides, whatever state and holder it finds`, async () => {
    for (const seen of [...FREE, ...HELD]) {
      await arrange(seen)
      const decision = decide(seen, command)
      const answer = await SENT[command]()
      if (decision.kind === 'refuse') {
        assert.equal(said(answer), `409 conflict/${decision.reason}`, JSON.stringify(seen))
        const names_it = ['operation_in_progress', 'workspace_not_running'].includes(decision.reason) && seen.held_by !== null
        assert.equal(answer.body.error.operation_id, names_it ? operation : undefined, JSON.stringify(seen))
      } else {
        assert.ok(answer.status < 300, `${said(answer)} ${JSON.stringify(seen)}`)
      }
    }
  })
}

test('a workspace is ready when it runs and no start holds it, and no token for it is refused', async () => {
  const ready: CommandFacts[] = []
  for (const seen of [...FREE, ...HELD]) {
    await arrange(seen)
    if ((await w.get(`/v1/workspaces/${id}`)).body.ready === true) ready.push(seen)
  }
  for (const seen of ready) assert.notEqual(decide(seen, 'tool_token').kind, 'refuse', JSON.stringify(seen))
  const holders = ready.filter(({ mode, lifetime }) => mode === 'processful' && lifetime === 'persistent').map(({ held_by }) => held_by)
  assert.deepEqual(holders, [
    null,
    'fork_source',
    'snapshot',
    'layer_snapshot',
    'template_build',
    'adopt_source',
    'volume_attach',
    'volume_detach',
  ])
})

test('a deleted workspace refuses commands as its table decides', async () => {
  for (const command of Object.keys(SENT) as Command[]) {
    const seen: CommandFacts = { observed_state: 'running', mode: 'processful', lifetime: 'persistent', deleted: true, held_by: null }
    await arrange(seen)
    const decision = decide(seen, command)
    if (decision.kind === 'refuse') assert.equal(said(await SENT[command]()), `409 conflict/${decision.reason}`, command)
  }
})

test('a token for a workspace without a gateway cannot be signed, and leaves neither a record nor a count', async () => {
  await arrange({ observed_state: 'running', mode: 'processful', lifetime: 'persistent', deleted: false, held_by: null })
  const workspaces = w.database.superuser.updateTable('workspaces').where('id', '=', id)
  await workspaces.set({ cell_id: null }).execute()
  const told = async () => {
    const { rows } = await sql<{ records: string; sessions: string; left: string }>`
      select (select count(*) from audit_events where action = 'tool_tokens.create') as records,
        (select count(*) from agent_sessions) as sessions, (select sum(tokens) from rate_buckets where name like 'tool_tokens:%') as left`.execute(w.database.superuser) // prettier-ignore
    return rows
  }
  const before = await told()
  assert.equal(said(await SENT.tool_token()), '503 dependency_unavailable/signing_failed')
  assert.deepEqual(await told(), before)
  await workspaces.set({ cell_id: w.cell_id }).execute()
})

test('an archived template opens no new key, and existing keys still open', async () => {
  await arrange({ observed_state: 'running', mode: 'processful', lifetime: 'persistent', deleted: false, held_by: null })
  const templates = w.database.superuser.updateTable('templates').where('slug', '=', 'base')
  await templates.set({ archived_at: w.clock.now() }).execute()
  assert.equal(said(await w.open('of-an-archived-one')), '409 conflict/template_archived')
  assert.equal(said(await SENT.open()), '200')
  await templates.set({ archived_at: null }).execute()
})
