import { isIP } from 'node:net'
import { type TSchema, Type } from 'typebox'
import { LIMITS } from '../../../contract/limits.ts'
import { Change } from '../../../contract/schemas/cell/change.ts'
import { type CommandList, ListedCommand, ListedTerminal, type TerminalList } from '../../../contract/schemas/cell/lists.ts'
import { Nullable } from '../../../contract/schemas/common.ts'
import { shape, type Shape } from './agent-answer.ts'
import { AgentFailure } from './agent-failure.ts'

const { type, size, mode } = Change.properties
export const facts = shape(
  Type.Object({ facts: Type.Array(Nullable(Type.Object({ type, size, mode })), { maxItems: LIMITS.file.changes_page_max }) }),
)

const ADDRESS_MAX = 45
const listed = shape(
  Type.Object({ addresses: Type.Array(Type.String({ maxLength: ADDRESS_MAX }), { maxItems: LIMITS.port.addresses_max }) }),
)
export const listeners: Shape<{ addresses: string[] }> = {
  parse(value) {
    const { addresses } = listed.parse(value)
    if (!addresses.every((each) => isIP(each) !== 0)) throw new AgentFailure('nonsense', 'The agent named an address that is none')
    return { addresses }
  },
}

const rows = <T extends TSchema>(row: T) => Type.Array(row, { maxItems: LIMITS.page.size_max })
const next_cursor = Nullable(Type.String({ pattern: `^[0-9a-f-]{1,${LIMITS.page.cursor_characters_max}}$` }))
const commands = shape(Type.Object({ commands: rows(ListedCommand), next_cursor }))
const terminals = shape(Type.Object({ terminals: rows(ListedTerminal), next_cursor }))
const listedCommand = shape(ListedCommand)
const listedTerminal = shape(ListedTerminal)
export const commandList: Shape<CommandList> = {
  parse(value) {
    const page = commands.parse(value)
    return { data: page.commands.map((each) => listedCommand.parse(each)), next_cursor: page.next_cursor }
  },
}
export const terminalList: Shape<TerminalList> = {
  parse(value) {
    const page = terminals.parse(value)
    return { data: page.terminals.map((each) => listedTerminal.parse(each)), next_cursor: page.next_cursor }
  },
}
