// The gateway drops a reason that it does not know, so the client would have only the message.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { CELL_REASONS } from '../../contract/errors.ts'

const agent = path.resolve(import.meta.dirname, '../../machine/internal/agent')
const CODES = { NotFound: 'not_found', Conflict: 'conflict', Invalid: 'validation_failed', RateLimited: 'rate_limited' } as const

/** No client of the gateway sees these. */
const NEVER_TOLD: Readonly<Record<string, string>> = {
  already_claimed: 'hostd alone claims a slot',
  not_claimed: 'hostd alone claims a slot',
  in_memory: 'of a reader of the disk: the gateway asks the machine then',
  invalid_argv: 'the gateway refuses it before, with the field',
  invalid_env: 'the gateway refuses it before, with the field',
  invalid_key: 'the gateway refuses it before, with the field',
  invalid_mode: 'the gateway refuses it before, with the field',
  invalid_session_id: 'the gateway refuses it before, with the field',
  invalid_signal: 'the gateway refuses it before, with the field',
  invalid_size: 'the gateway refuses it before, with the field',
  invalid_stdin: 'the gateway refuses it before, with the field',
  invalid_timeout: 'the gateway refuses it before, with the field',
}

test('every refusal reason of an agent is in the contract, or never reaches a client', () => {
  const said = globSync('**/*.go', { cwd: agent })
    .filter((file) => !file.endsWith('_test.go'))
    .flatMap((file) => {
      const text = readFileSync(path.join(agent, file), 'utf8')
      return [...text.matchAll(/\b(NotFound|Conflict|Invalid|RateLimited|conflict)\("(\w+)"/g)].map(([, kind = '', reason = '']) => ({
        file,
        code: CODES[(kind === 'conflict' ? 'Conflict' : kind) as keyof typeof CODES],
        reason,
      }))
    })
  assert.ok(said.length > 50, `${said.length} were found`)
  const known = (code: keyof typeof CELL_REASONS): readonly string[] => CELL_REASONS[code]
  assert.deepEqual(
    said.filter(({ code, reason }) => !(reason in NEVER_TOLD) && !known(code).includes(reason)),
    [],
  )
  const names = new Set(said.map(({ reason }) => reason))
  assert.deepEqual(
    Object.keys(NEVER_TOLD).filter((reason) => !names.has(reason)),
    [],
  )
})
