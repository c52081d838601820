import { LIMITS } from '../../../../contract/limits.ts'
import type { templateBuildsLog } from '../../../../contract/routes/app/template-builds.ts'
import type { TemplateBuildLog } from '../../../../contract/schemas/template-builds.ts'
import { isTerminal } from '../../../../contract/states/operation.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { findBuild } from './get.ts'
import { readLog, type LogPiece } from './store.ts'
import type { ReadDeps } from '../../calls/deps.ts'

const PIECES_MAX = 16
const CONTINUES = 0b1000_0000 // UTF-8 continuation bytes begin with the bits 10

export async function readBuildLog(call: Call<typeof templateBuildsLog>, deps: ReadDeps): Promise<Reply> {
  const { offset = 0 } = call.query
  const row = await findBuild(deps.reads, call.who, call.params.build_id)
  if (row.completed_at !== null && call.now.getTime() - row.completed_at.getTime() > LIMITS.template_build.log_seconds * 1000) {
    throw fail('not_found', 'log_expired', 'The log of the build is not kept any longer')
  }
  if (offset > row.log_bytes) throw beyond(row.log_bytes)
  const piece = cut(await readLog(deps.reads, row.id, offset, PIECES_MAX), offset)
  return { status: 200, body: { ...piece, complete: isTerminal(row.state) && piece.next_offset >= row.log_bytes } }
}

function cut(pieces: LogPiece[], offset: number): Omit<TemplateBuildLog, 'complete'> {
  const [first] = pieces
  if (first === undefined) return { offset, next_offset: offset, text: '' }
  const bytes = Buffer.from(pieces.map(({ text }) => text).join(''))
  let from = Math.min(offset - first.start_byte, bytes.length)
  while (from < bytes.length && ((bytes[from] ?? 0) & 0b1100_0000) === CONTINUES) from += 1
  return { offset: first.start_byte + from, next_offset: first.start_byte + bytes.length, text: bytes.toString('utf8', from) }
}

function beyond(log_bytes: number) {
  const message = `is beyond the end of the log, which has ${log_bytes} bytes`
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path: 'offset', message }] } })
}
