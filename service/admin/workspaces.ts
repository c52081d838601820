import { parseArgs } from 'node:util'
import { isUuid } from '../lib/ids.ts'
import { revokeWorkspaceTokens } from '../core/keys/tool-tokens/store.ts'
import { AdminError, type Command, type Context, subjectOf, UsageError, words } from './command.ts'

export const WORKSPACE_COMMANDS: Record<string, Command> = {
  'workspace revoke-tokens': { synopsis: 'WORKSPACE_ID', revokes: true, run: revokeTokens },
}

/** All tokens issued before now are refused with revoked_watermark. New tokens work. */
async function revokeTokens(argv: string[], { output, clock, change }: Context): Promise<void> {
  const { workspace_id } = words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals, 'workspace_id')
  if (!isUuid(workspace_id)) throw new UsageError('WORKSPACE_ID must be the id of a workspace')
  const found = await change(
    'tool-tokens.revoke',
    (tx) => revokeWorkspaceTokens(tx, workspace_id, clock.now()),
    (workspace) => (workspace === undefined ? null : subjectOf('workspace', workspace.id, workspace)),
  )
  if (found === undefined) throw new AdminError(`There is no workspace ${workspace_id}`)
  output.note(`Tool tokens of workspace ${workspace_id} that were issued until now are refused`)
}
