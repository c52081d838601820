import { LIMITS } from '../../../contract/limits.ts'
import type { FilePatch } from '../../../contract/schemas/cell/file.ts'
import { fail } from '../../lib/fail.ts'

type TextEdit = NonNullable<FilePatch['edits']>[number]

/** Applies each edit to the text that the one before left, as the agent does (machine/internal/agent/files). Pure. */
export function applyEdits(content: Buffer, edits: readonly TextEdit[]): { content: Buffer; replacements: number } {
  if (!isText(content)) throw fail('validation_failed', 'edit_not_text', 'The file is not UTF-8 text')
  let replacements = 0
  let text = content
  for (const [index, edit] of edits.entries()) {
    const [old_text, new_text] = [Buffer.from(edit.old_text), Buffer.from(edit.new_text)]
    const found = occurrences(text, old_text, edit.replace_all === true, index)
    if (text.length + found.length * (new_text.length - old_text.length) > LIMITS.file.patch_file_bytes_max) throw tooLargeToEdit()
    text = replaceAt(text, found, old_text.length, new_text)
    replacements += found.length
  }
  return { content: text, replacements }
}

export function tooLargeToEdit() {
  const max_bytes = LIMITS.file.patch_file_bytes_max
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

/** Where the old text is, from left to right and not within each other. */
function occurrences(text: Buffer, old_text: Buffer, all: boolean, index: number): number[] {
  const first = text.indexOf(old_text)
  if (first < 0) throw fail('validation_failed', 'edit_not_found', 'The old text is not in the file', { details: { index } })
  if (!all) {
    // Occurrences that overlap are two as well: which one was meant is not known.
    if (text.indexOf(old_text, first + 1) < 0) return [first]
    const message = 'The old text occurs more than once: add context, or set replace_all'
    throw fail('validation_failed', 'edit_ambiguous', message, { details: { index } })
  }
  const found: number[] = []
  for (let at = first; at >= 0; at = text.indexOf(old_text, at + old_text.length)) found.push(at)
  return found
}

function replaceAt(text: Buffer, found: readonly number[], old_bytes: number, new_text: Buffer): Buffer {
  const pieces: Buffer[] = []
  let from = 0
  for (const at of found) {
    pieces.push(text.subarray(from, at), new_text)
    from = at + old_bytes
  }
  pieces.push(text.subarray(from))
  return Buffer.concat(pieces)
}
