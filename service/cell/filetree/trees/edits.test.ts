import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../../../contract/limits.ts'
import { applyEdits } from './edits.ts'

const { patch_read_bytes_max } = LIMITS.file
const edited = async (text: string, ...edits: Parameters<typeof applyEdits>[1]) => {
  const { content, replacements } = await applyEdits(Buffer.from(text), edits)
  return [content.toString(), replacements]
}

test('edits apply from left to right, each to the result of the one before', async () => {
  assert.deepEqual(await edited('one two', { old_text: 'two', new_text: 'three' }, { old_text: 'one three', new_text: 'é' }), ['é', 2])
  assert.deepEqual(await edited('aaaaa', { old_text: 'aa', new_text: 'b', replace_all: true }), ['bba', 2])
  assert.deepEqual(await edited('abababc', { old_text: 'ababc', new_text: 'x' }), ['abx', 1])
  assert.deepEqual(await edited('aabaabaaab', { old_text: 'aab', new_text: '', replace_all: true }), ['a', 3])
  await assert.rejects(edited('aaa', { old_text: 'aa', new_text: 'b' }), { reason: 'edit_ambiguous' })
  await assert.rejects(edited('aaa', { old_text: 'ab', new_text: 'b' }), { reason: 'edit_not_found' })
})

test("the cost of a patch depends on the file's size alone, and other calls are served between its edits", async () => {
  const file = Buffer.alloc(1 << 20, 'a')
  const { replacements } = await applyEdits(file, [{ old_text: 'a', new_text: 'b', replace_all: true }])
  assert.equal(replacements, file.length)
  // A search that restarts at each mismatch would take hours for this text.
  const old_text = `${'a'.repeat(1 << 18)}b${'a'.repeat(1 << 18)}`
  await assert.rejects(applyEdits(file, [{ old_text, new_text: '' }]), { reason: 'edit_not_found' })
  let turns = 0
  const timer = setInterval(() => (turns += 1), 1)
  const swap = (i: number) => ({ old_text: i % 2 ? 'b' : 'a', new_text: i % 2 ? 'a' : 'b', replace_all: true })
  await applyEdits(
    file,
    Array.from({ length: 20 }, (_, i) => swap(i)),
  ).finally(() => clearInterval(timer))
  assert.ok(turns > 1, `${turns} turns`)
  const many = Array.from({ length: 1000 }, (_, i) => swap(i))
  const details = { max_bytes: Math.floor(patch_read_bytes_max / 1000) }
  await assert.rejects(applyEdits(Buffer.alloc(details.max_bytes + 1, 'a'), many), { code: 'payload_too_large', options: { details } })
})
