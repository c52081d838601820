import { isIP } from 'node:net'
import { Facts } from '../../../contract/internal/agent-files.ts'
import { ExecList, PtyList } from '../../../contract/internal/agent-runs.ts'
import { Listeners } from '../../../contract/internal/agent-tools.ts'
import { type CommandList, ListedCommand, ListedTerminal, type TerminalList } from '../../../contract/schemas/cell/lists.ts'
import { shape, type Shape } from './agent-answer.ts'
import { AgentFailure } from './agent-failure.ts'

export const facts = shape(Facts)

const listed = shape(Listeners)
export const listeners: Shape<{ addresses: string[] }> = {
  parse(value) {
    const { addresses } = listed.parse(value)
    if (!addresses.every((each) => isIP(each) !== 0)) throw new AgentFailure('nonsense', 'The agent named an address that is none')
    return { addresses }
  },
}

const commands = shape(ExecList)
const terminals = shape(PtyList)
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
