import { parseArgs } from 'node:util'
import { isUuid } from '../lib/ids.ts'
import { AdminError, type Command, type Context, UsageError, words } from './command.ts'
import { revokeWorkspaceTokens } from './store.ts'

export const WORKSPACE_COMMANDS: Record<string, Command> = {
  'workspace revoke-tokens': { synopsis: 'WORKSPACE_ID', run: revokeTokens },
}

/** For a token that leaked: all that were issued until now are refused with revoked_watermark; new ones are served. */
async function revokeTokens(argv: string[], { db, output, clock }: Context): Promise<void> {
  const { workspace_id } = words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals, 'workspace_id')
  if (!isUuid(workspace_id)) throw new UsageError('WORKSPACE_ID must be the id of a workspace')
  if (!(await revokeWorkspaceTokens(db, workspace_id, clock.now()))) throw new AdminError(`There is no workspace ${workspace_id}`)
  output.note(`Tool tokens of workspace ${workspace_id} that were issued until now are refused`)
}
