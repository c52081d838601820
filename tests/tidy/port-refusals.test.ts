import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { PORT_REFUSALS } from '../../contract/port-refusals.ts'

test('the guide lists exactly the refusal reasons of a port URL, each with its status', () => {
  const guide = readFileSync(new URL('../../docs/guides/ports.md', import.meta.url), 'utf8')
  const rows = [...guide.matchAll(/^\| (\d{3}) \| `([a-z_]+)` \| (.+) \|$/gm)].map(([, status, reason, means]) => [
    Number(status),
    reason,
    means,
  ])
  const declared = Object.entries(PORT_REFUSALS).map(([reason, { status, means }]) => [status, reason, means])
  assert.deepEqual(rows, declared)
})

test('the proxy uses only declared reasons, each with its status', () => {
  const declared: Readonly<Partial<Record<string, { status: number }>>> = PORT_REFUSALS
  const source = readFileSync(new URL('../../machine/internal/ports/door/refusal.go', import.meta.url), 'utf8')
  const said = [...source.matchAll(/\{(\d{3}), "([a-z_]+)", "/g)].map(([, status, reason = '']) => [reason, Number(status)] as const)
  assert.ok(said.length > 5)
  for (const [reason, status] of said) assert.equal(declared[reason]?.status, status, reason)
})
