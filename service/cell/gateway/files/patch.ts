import { createHash } from 'node:crypto'
import type { filesPatch } from '../../../../contract/routes/cell/files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { FilePatch, PatchResult } from '../../../../contract/schemas/cell/file.ts'
import { fail } from '../../../lib/fail.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { keyOf } from './key.ts'
import { checkPath } from './path.ts'

export const patchFile: GatewayHandler<typeof filesPatch> = async (call, _deps, ticket) => {
  const key = keyOf(call.named_headers)
  const patch = { ...call.body, path: checkPath('path', call.body.path) }
  checkPatch(patch)
  const body = await callAgent(ticket, 'change', call, async (bounds) => confirmed(patch, await ticket.agent.patchFile(patch, key, bounds)))
  return { status: 200, body }
}

export function checkPatch({ edits, content }: FilePatch): void {
  if ((edits === undefined) === (content === undefined) || edits?.length === 0) throw invalid('A patch has either edits or content')
  if (edits !== undefined && edits.length > LIMITS.file.patch_edits_max)
    throw invalid(`A patch has at most ${LIMITS.file.patch_edits_max} edits`)
  const texts = edits?.flatMap(({ old_text, new_text }) => [old_text, new_text]) ?? [content ?? '']
  // Refused, because UTF-8 would turn a lone surrogate into other text.
  if (!texts.every((text) => text.isWellFormed())) throw invalid('The text is not Unicode text')
}

function invalid(message: string) {
  return fail('validation_failed', 'patch_invalid', message)
}

/** Checks the agent's digest of a file whose whole content was sent. */
function confirmed({ content }: FilePatch, result: PatchResult): PatchResult {
  if (content === undefined || createHash('sha256').update(content).digest('hex') === result.revision) return result
  throw new AgentFailure('nonsense', 'The agent acknowledged another content than it was sent')
}
