import assert from 'node:assert/strict'
import { test } from 'node:test'
import { APP_REASONS } from '../errors.ts'
import { COMMANDS, decide, LOCKED_COMMANDS, STATE_COMMANDS, type LockRole, type CommandFacts } from './commands.ts'
import { OBSERVED_STATES } from './machine.ts'

const running: CommandFacts = { observed_state: 'running', deleted: false, mode: 'processful', lifetime: 'persistent', held_by: null }
const all: CommandFacts[] = OBSERVED_STATES.flatMap((observed_state) =>
  ([null, ...Object.keys(LOCKED_COMMANDS)] as (LockRole | null)[]).flatMap((held_by) =>
    (['persistent', 'session'] as const).flatMap((lifetime) =>
      (['processful', 'file_first'] as const).flatMap((mode) =>
        [true, false].map((deleted) => ({ observed_state, held_by, lifetime, mode, deleted })),
      ),
    ),
  ),
)

test('every state, holder, lifetime and mode decides every command, with reasons of the specification only', () => {
  const known: readonly string[] = APP_REASONS.conflict
  for (const seen of all) {
    for (const command of COMMANDS) {
      const decision = decide(seen, command)
      if (decision.kind === 'refuse') assert.ok(known.includes(decision.reason), decision.reason)
      if (decision.kind === 'join')
        assert.ok(seen.held_by !== null || seen.deleted || /^delet/.test(seen.observed_state), JSON.stringify([seen, command]))
    }
  }
})

test('delete is always accepted: it starts an operation, or joins the running delete', () => {
  for (const seen of all) {
    const { kind } = decide(seen, 'delete')
    const ends_already = seen.deleted || seen.held_by === 'delete' || (seen.held_by === null && /^delet/.test(seen.observed_state))
    assert.equal(kind, ends_already ? 'join' : 'operate')
  }
})

test('while an operation holds the workspace, only delete, close and a second fork start another', () => {
  for (const seen of all.filter(({ held_by }) => held_by !== null)) {
    for (const command of COMMANDS.filter((name) => name !== 'delete' && name !== 'close')) {
      const is_shared = seen.held_by === 'fork_source' && command === 'fork'
      if (!is_shared) assert.notEqual(decide(seen, command).kind, 'operate', JSON.stringify([seen, command]))
    }
  }
})

test('refusals rank: deleted, mode, lifetime, operation in progress, state', () => {
  const refusal = (seen: Partial<CommandFacts>) => {
    const decision = decide({ ...running, ...seen }, 'suspend')
    return decision.kind === 'refuse' ? decision.reason : decision.kind
  }
  const everything: Partial<CommandFacts> = {
    deleted: true,
    mode: 'file_first',
    lifetime: 'session',
    held_by: 'fork_source',
    observed_state: 'failed',
  }
  assert.equal(refusal(everything), 'workspace_deleted')
  assert.equal(refusal({ ...everything, deleted: false }), 'not_supported_for_mode')
  assert.equal(refusal({ ...everything, deleted: false, mode: 'processful' }), 'session_lifetime')
  assert.equal(refusal({ held_by: 'fork_source', observed_state: 'failed' }), 'operation_in_progress')
  assert.equal(refusal({ observed_state: 'failed' }), 'not_running')
  assert.equal(refusal({}), 'operate')
})

test('close is refused for persistent workspaces, and a repeated delete joins the first', () => {
  const of = (lifetime: CommandFacts['lifetime'], deleted: boolean) => decide({ ...running, lifetime, deleted }, 'close')
  assert.deepEqual(of('persistent', false), { kind: 'refuse', reason: 'not_session' })
  assert.deepEqual(of('persistent', true), { kind: 'refuse', reason: 'workspace_deleted' })
  assert.deepEqual(of('session', true), { kind: 'join' })
  assert.deepEqual(decide({ ...running, deleted: true }, 'delete'), { kind: 'join' })
})

test('the tables match the rows of the specification', () => {
  const of = (observed_state: CommandFacts['observed_state'], command: (typeof COMMANDS)[number]) => STATE_COMMANDS[observed_state][command]
  assert.deepEqual(of('running', 'resume'), { kind: 'refuse', reason: 'already_running' })
  assert.deepEqual(of('running', 'resume_and_wait'), { kind: 'proceed' })
  assert.deepEqual(of('suspended', 'open'), { kind: 'operate', operation: 'resume', desired_state: 'running' })
  assert.deepEqual(of('failed', 'open'), { kind: 'operate', operation: 'open', desired_state: 'running' })
  assert.deepEqual(of('failed', 'resume'), { kind: 'refuse', reason: 'not_suspended' })
  assert.deepEqual(of('suspended', 'tool_token'), { kind: 'proceed' })
  for (const command of ['open', 'resume_and_wait'] as const) {
    assert.deepEqual(decide({ ...running, held_by: 'fork_source' }, command), { kind: 'proceed' })
    assert.deepEqual(decide({ ...running, observed_state: 'suspended', held_by: 'fork_source' }, command), {
      kind: 'refuse',
      reason: 'operation_in_progress',
    })
  }
})

test('a second fork of a source starts its own operation, and no other command does', () => {
  const of = (observed_state: CommandFacts['observed_state'], command: (typeof COMMANDS)[number]) =>
    decide({ ...running, observed_state, held_by: 'fork_source' }, command)
  assert.deepEqual(of('running', 'fork'), { kind: 'operate', operation: 'fork', desired_state: 'running' })
  assert.deepEqual(of('suspended', 'fork'), { kind: 'operate', operation: 'fork', desired_state: 'running' })
  for (const command of ['snapshot', 'suspend', 'reset', 'restore'] as const)
    assert.deepEqual(of('running', command), { kind: 'refuse', reason: 'operation_in_progress' })
  assert.deepEqual(decide({ ...running, held_by: 'fork_target' }, 'fork'), { kind: 'refuse', reason: 'operation_in_progress' })
})
