import { type Static, type TSchema, Type } from 'typebox'
import { LIMITS } from '../../../contract/limits.ts'
import { type CommandList, ListedCommand, ListedTerminal, type TerminalList } from '../../../contract/schemas/cell/lists.ts'
import { Nullable } from '../../../contract/schemas/common.ts'
import { shape } from './agent-answer.ts'

// machine/internal/wire/agent.go: ExecList and PtyList.

const pageOf = <T extends TSchema>(row: T) => Type.Array(row, { maxItems: LIMITS.page.size_max })
const next_cursor = Nullable(Type.String({ pattern: `^[0-9a-f-]{1,${LIMITS.page.cursor_characters_max}}$` }))
const CommandsPage = Type.Object({ commands: pageOf(ListedCommand), next_cursor })
const TerminalsPage = Type.Object({ terminals: pageOf(ListedTerminal), next_cursor })

export const commandsPage = shape(CommandsPage)
export const terminalsPage = shape(TerminalsPage)
const listedCommand = shape(ListedCommand)
const listedTerminal = shape(ListedTerminal)

export function commandsOf({ commands, next_cursor: next }: Static<typeof CommandsPage>): CommandList {
  return { data: commands.map((each) => listedCommand.parse(each)), next_cursor: next }
}

export function terminalsOf({ terminals, next_cursor: next }: Static<typeof TerminalsPage>): TerminalList {
  return { data: terminals.map((each) => listedTerminal.parse(each)), next_cursor: next }
}
