import type { filesList, filesMkdir, filesMove, filesRemove, filesStat } from '../../../../contract/routes/cell/files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { checkMode, checkPath, pathOf } from './path.ts'

export const statFile: GatewayHandler<typeof filesStat> = async (call, _deps, ticket) => {
  const path = pathOf(call.body_stream.url ?? '')
  const body = await callAgent(ticket, 'read', call, (bounds) => ticket.files.statFile(path, call.query.revision ?? false, bounds))
  return { status: 200, headers: ticket.read_headers, body }
}

export const listFiles: GatewayHandler<typeof filesList> = async (call, _deps, ticket) => {
  const path = pathOf(call.body_stream.url ?? '')
  const { limit = LIMITS.file.list_entries_default, cursor, recursive } = call.query
  const asked = { limit, ...(cursor === undefined ? {} : { cursor }), ...(recursive ? { recursive } : {}) }
  const body = await callAgent(ticket, 'read', call, (bounds) => ticket.files.listFiles(path, asked, bounds))
  return { status: 200, headers: ticket.read_headers, body }
}

export const removeFile: GatewayHandler<typeof filesRemove> = async (call, _deps, ticket) => {
  const path = pathOf(call.body_stream.url ?? '')
  await callAgent(ticket, 'change', call, (bounds) => ticket.agent.removeFile(path, call.query.recursive ?? false, bounds))
  return { status: 204 }
}

export const makeDirectory: GatewayHandler<typeof filesMkdir> = async (call, _deps, ticket) => {
  const { parents = false, mode } = call.body
  const wanted = { path: checkPath('path', call.body.path), parents, ...checkMode(mode) }
  return { status: 201, body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.makeDirectory(wanted, bounds)) }
}

export const moveFile: GatewayHandler<typeof filesMove> = async (call, _deps, ticket) => {
  const { overwrite = false } = call.body
  const wanted = { from: checkPath('from', call.body.from), to: checkPath('to', call.body.to), overwrite }
  return { status: 200, body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.moveFile(wanted, bounds)) }
}
