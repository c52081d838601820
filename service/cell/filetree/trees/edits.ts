import { setImmediate } from 'node:timers/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import type { FilePatch } from '../../../../contract/schemas/cell/file.ts'
import { fail } from '../../../lib/fail.ts'

type TextEdit = NonNullable<FilePatch['edits']>[number]

/** The longest time that a patch blocks the event loop before other work may run. */
const TURN_MS = 20

/**
 * The rules are those of machine/internal/agent/files. An edit reads the text at most three times, and a limit bounds all edits of a
 * patch.
 */
export async function applyEdits(content: Buffer, edits: readonly TextEdit[]): Promise<{ content: Buffer; replacements: number }> {
  if (!isText(content)) throw fail('validation_failed', 'edit_not_text', 'The file is not UTF-8 text')
  let replacements = 0
  let text = content
  const read_bytes_max = LIMITS.file.patch_read_bytes_max
  const most_bytes = Math.floor(read_bytes_max / edits.length)
  if (content.length > most_bytes) throw tooLargeToEdit(most_bytes)
  let read_bytes = 0
  let turn_ms = performance.now()
  for (const [index, edit] of edits.entries()) {
    read_bytes += text.length
    if (read_bytes > read_bytes_max) throw tooLargeToEdit(most_bytes) // earlier edits made the text larger
    if (performance.now() - turn_ms > TURN_MS) {
      await setImmediate()
      turn_ms = performance.now()
    }
    const [old_text, new_text] = [Buffer.from(edit.old_text), Buffer.from(edit.new_text)]
    const found = count(text, old_text, edit.replace_all === true, index)
    const bytes = text.length + found * (new_text.length - old_text.length)
    if (bytes > LIMITS.file.patch_file_bytes_max) throw tooLargeToEdit()
    text = replaced(text, old_text, new_text, { found, bytes })
    replacements += found
  }
  return { content: text, replacements }
}

export function tooLargeToEdit(max_bytes: number = LIMITS.file.patch_file_bytes_max) {
  return fail('payload_too_large', null, 'The file is too large to edit', { details: { max_bytes } })
}

function isText(content: Buffer): boolean {
  if (content.includes(0)) return false
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(content)
    return true
  } catch {
    return false
  }
}

function count(text: Buffer, old_text: Buffer, all: boolean, index: number): number {
  const next = occurrences(text, old_text, !all)
  if (next() < 0) throw fail('validation_failed', 'edit_not_found', 'The old text is not in the file', { details: { index } })
  let found = 1
  while (next() >= 0) {
    found += 1
    if (all) continue
    // Overlapping occurrences are counted too, because they are ambiguous.
    const message = 'The old text occurs more than once: add context, or set replace_all'
    throw fail('validation_failed', 'edit_ambiguous', message, { details: { index } })
  }
  return found
}

function replaced(text: Buffer, old_text: Buffer, new_text: Buffer, { found, bytes }: { found: number; bytes: number }): Buffer {
  const result = Buffer.allocUnsafe(bytes)
  const next = occurrences(text, old_text, false)
  let from = 0
  let at = 0
  for (let i = 0; i < found; i++) {
    const begin = next()
    at = copy(text, from, begin, result, at)
    at = copy(new_text, 0, new_text.length, result, at)
    from = begin + old_text.length
  }
  copy(text, from, text.length, result, at)
  return result
}

/** Shorter pieces are copied in a loop: 16 million native calls for one byte each would take seconds. */
const SHORT_BYTES = 32

function copy(source: Buffer, from: number, to: number, target: Buffer, at: number): number {
  if (to - from > SHORT_BYTES) return at + source.copy(target, at, from, to)
  for (let i = from; i < to; i++) target[at++] = source[i] ?? 0
  return at
}

/**
 * Reads each byte once (Knuth-Morris-Pratt). The time of Buffer.indexOf grows with the product of both lengths for repetitive texts.
 * @returns -1 at the end
 */
function occurrences(text: Buffer, old_text: Buffer, overlapping: boolean): () => number {
  const borders = bordersOf(old_text)
  let at = 0
  let matched = 0
  return () => {
    while (at < text.length) {
      const byte = text[at++]
      while (matched > 0 && byte !== old_text[matched]) matched = borders[matched - 1] ?? 0
      if (byte === old_text[matched]) matched += 1
      if (matched < old_text.length) continue
      matched = overlapping ? (borders[matched - 1] ?? 0) : 0
      return at - old_text.length
    }
    return -1
  }
}

/** For each prefix of the text, the length of its longest proper border: a prefix that is also its end. */
function bordersOf(text: Buffer): Uint32Array {
  const borders = new Uint32Array(text.length)
  let length = 0
  for (let at = 1; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = borders[length - 1] ?? 0
    if (text[at] === text[length]) length += 1
    borders[at] = length
  }
  return borders
}
