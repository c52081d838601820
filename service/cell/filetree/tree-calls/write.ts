import { createHash } from 'node:crypto'
import type { filesPatch, filesWrite } from '../../../../contract/routes/cell/files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { FilePatch } from '../../../../contract/schemas/cell/file.ts'
import type { Call } from '../../../http/call.ts'
import { drainBody } from '../../../http/drain.ts'
import { fail } from '../../../lib/fail.ts'
import { appended, type Content, contentOf, readPart } from '../trees/contents.ts'
import { applyEdits, tooLargeToEdit } from '../trees/edits.ts'
import type { Entry, FileEntry, TreePath } from '../trees/entries.ts'
import { isName } from '../trees/names.ts'
import { resolvePath } from '../trees/paths.ts'
import type { TreeChange } from '../trees/tree.ts'
import { keyOf } from '../../gateway/files/key.ts'
import { checkPatch } from '../../gateway/files/patch.ts'
import { checkMode, checkPath, pathOf } from '../../gateway/files/path.ts'
import { tooLarge } from '../../gateway/files/write-body.ts'
import type { CallLease } from '../../admission/call-lease.ts'
import { asFailure, changing, type Keyed, type Seen, type TreeHandler } from './calls.ts'
import { resolveForWrite } from './change.ts'
import { checkInside, infoOf, modeOf, notAFile, notThere, refusalOf, unresolvable } from './rules.ts'

export const writeTreeFile: TreeHandler<typeof filesWrite> = async (call, deps, ticket) => {
  try {
    const path = checkInside(pathOf(call.url), 'change')
    const { append = false, create_parents = false } = call.query
    const { mode } = checkMode(call.query.mode)
    const key = keyOf(call.named_headers)
    const body = await bodyOf(call, ticket)
    const sha256 = digest(body)
    const keyed = keyedBy(key, { write: path, append, create_parents, mode: mode ?? null, sha256 })
    return await changing(
      deps,
      ticket,
      call,
      async (seen) => {
        const { at, made, old } = await targetOf(seen, path, create_parents, call.now)
        const { content, blobs } = append && old !== null ? await appended(seen.blobs, old, body) : contentOf(body)
        const entry = fileOf(content, modeOf(mode, old?.mode ?? 0o644), call.now)
        const revision = content.size <= LIMITS.file.revision_stat_bytes_max && content.sha256 !== null ? { revision: content.sha256 } : {}
        return {
          changes: [...made, { kind: 'put', path: at, entry }],
          contents: blobs,
          status: 200,
          body: { path, bytes_written: body.length, sha256, durable: true, ...revision },
        }
      },
      keyed,
    )
  } catch (error) {
    await drainBody(call.body_stream)
    throw asFailure(error)
  }
}

export const patchTreeFile: TreeHandler<typeof filesPatch> = (call, deps, ticket) => {
  const patch = { ...call.body, path: checkInside(checkPath('path', call.body.path), 'change') }
  const key = keyOf(call.named_headers)
  checkPatch(patch)
  const empty = patch.edits?.findIndex(({ old_text }) => old_text === '') ?? -1
  if (empty >= 0) throw fail('validation_failed', 'patch_invalid', "An edit's old_text is not empty", { details: { index: empty } })
  const keyed = keyedBy(key, { patch })
  return changing(
    deps,
    ticket,
    call,
    async (seen) => {
      const { at, old } = await targetOf(seen, patch.path, false, call.now)
      checkExpected(patch, old)
      const { next, replacements } = await patched(seen, patch, old, ticket)
      const { content, blobs } = contentOf(next)
      const entry = fileOf(content, old?.mode ?? 0o644, call.now)
      const revision = digest(next)
      return {
        changes: [{ kind: 'put', path: at, entry }],
        contents: blobs,
        status: 200,
        body: {
          path: patch.path,
          revision,
          ...(old === null ? { previous_revision: null } : old.sha256 === null ? {} : { previous_revision: old.sha256 }),
          bytes_written: next.length,
          durable: true,
          replacements,
          file: { ...infoOf(patch.path, entry), revision },
        },
      }
    },
    keyed,
  )
}

/** Cell, "File, parking and host reasons": `current_revision` is absent for a missing file. */
function checkExpected({ expected_revision }: FilePatch, old: FileEntry | null): void {
  if (expected_revision === undefined) return
  const max_bytes = LIMITS.file.revision_stat_bytes_max
  if (old?.sha256 === null) throw fail('payload_too_large', null, 'The file is too large to have a revision', { details: { max_bytes } })
  if (expected_revision === (old?.sha256 ?? 'absent')) return
  throw fail('conflict', 'revision_mismatch', 'The file is at another revision', {
    details: old === null ? {} : { current_revision: old.sha256 },
  })
}

async function patched({ blobs }: Seen, { path, edits, content }: FilePatch, old: FileEntry | null, { room }: CallLease) {
  if (content !== undefined) return { next: Buffer.from(content), replacements: 0 }
  if (old === null) throw notThere(path)
  if (old.size > LIMITS.file.patch_file_bytes_max) throw tooLargeToEdit()
  room.take(2 * old.size)
  const { content: next, replacements } = await applyEdits(await readPart(blobs, old, 0, old.size), edits ?? [])
  return { next, replacements }
}

/** A link at the end of the path is followed: the file it points to is replaced. */
async function targetOf(
  seen: Seen,
  path: string,
  create_parents: boolean,
  now: Date,
): Promise<{ at: TreePath; made: TreeChange[]; old: FileEntry | null }> {
  if (path.endsWith('/')) await refuseDirectoryPath(seen, path)
  const { at, made, old } = await resolveForWrite(seen, path, create_parents, now.getTime())
  if (old !== null && old.type !== 'file') throw notAFile(path, old)
  if (old === null && !isName(at.at(-1) ?? '')) throw unresolvable(path)
  return { at, made, old }
}

/** A trailing slash names a directory, so this path cannot be written as a file. */
async function refuseDirectoryPath(seen: Seen, path: string): Promise<never> {
  const resolved = await resolvePath(seen, seen.root, path, { follow: true })
  if (resolved.kind === 'found') throw notAFile(path, resolved.entry)
  if (resolved.kind !== 'missing' && resolved.kind !== 'no_parent') throw refusalOf(resolved, path, 'change')
  throw fail('validation_failed', 'invalid_path', "A file's path does not end with a slash", { details: { path } })
}

function fileOf(content: Content, mode: number, now: Date): Entry {
  return { type: 'file', mode, modified_ms: now.getTime(), ...content }
}

async function bodyOf({ body_stream, headers, signal }: Call<typeof filesWrite>, { room }: CallLease): Promise<Buffer> {
  if (Number(headers['content-length'] ?? 0) > LIMITS.file.write_bytes_max) throw tooLarge()
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of body_stream) {
    signal.throwIfAborted()
    const buffer = piece as Buffer // no encoding was set
    bytes += buffer.length
    if (bytes > LIMITS.file.write_bytes_max) throw tooLarge()
    room.take(buffer.length)
    pieces.push(buffer)
  }
  return Buffer.concat(pieces)
}

function keyedBy(key: string | null, asked: object): Keyed {
  return { key, fingerprint: createHash('sha256').update(JSON.stringify(asked)).digest() }
}

function digest(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
