import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('refusals')
  await client.run(workspace, ['bash', '-c', 'cd ~ && mkdir -p full/inner empty && echo text > file && echo other > other && mkfifo pipe'])
})
after(async () => {
  await service.stop()
})

const at = (path: string) => `path=${encodeURIComponent(`/home/user/${path}`)}`
const home = (path: string) => `/home/user/${path}`

async function said(method: string, path: string, json?: object): Promise<string> {
  const bytes = method === 'PUT' ? { bytes: Buffer.from('bytes') } : {}
  const { status, body } = await client.tool<{ error?: { code: string; details?: { reason?: string } } }>(workspace, path, {
    method,
    ...bytes,
    ...(json === undefined ? {} : { json }),
  })
  const { code, details } = body.error ?? {}
  return code === undefined ? String(status) : `${status} ${code}${details?.reason === undefined ? '' : `/${details.reason}`}`
}

const move = (from: string, to: string, overwrite = false) =>
  ['POST', '/files/move', { from: home(from), to: home(to), overwrite }] as const
const REFUSED: readonly (readonly [string, string, string, object?])[] = [
  ['404 not_found/path_not_found', 'GET', `/files?${at('absent')}`],
  ['409 conflict/not_a_file', 'GET', `/files?${at('full')}`],
  ['409 conflict/not_a_directory', 'GET', `/files?${at('file/below')}`],
  ['422 validation_failed/invalid_path', 'GET', '/files?path=relative'],
  ['404 not_found/path_not_found', 'PUT', `/files?${at('absent/below')}`],
  ['409 conflict/not_a_file', 'PUT', `/files?${at('full')}`],
  ['409 conflict/not_a_directory', 'PUT', `/files?${at('file/below')}`],
  ['404 not_found/path_not_found', 'DELETE', `/files?${at('absent')}`],
  ['409 conflict/not_empty', 'DELETE', `/files?${at('full')}`],
  ['409 conflict/not_a_directory', 'DELETE', `/files?${at('file/below')}`],
  ['404 not_found/path_not_found', 'GET', `/files/stat?${at('absent')}`],
  ['409 conflict/not_a_directory', 'GET', `/files/stat?${at('file/below')}`],
  ['404 not_found/path_not_found', 'GET', `/files/list?${at('absent')}`],
  ['409 conflict/not_a_directory', 'GET', `/files/list?${at('file')}`],
  ['404 not_found/path_not_found', 'POST', '/files/mkdir', { path: home('absent/below') }],
  ['409 conflict/already_exists', 'POST', '/files/mkdir', { path: home('full') }],
  ['409 conflict/not_a_directory', 'POST', '/files/mkdir', { path: home('file/below') }],
  ['404 not_found/path_not_found', ...move('absent', 'moved')],
  ['409 conflict/already_exists', ...move('file', 'other')],
  ['409 conflict/not_empty', ...move('empty', 'full', true)],
  ['409 conflict/not_a_file', ...move('file', 'empty', true)],
  ['409 conflict/not_a_directory', ...move('empty', 'file', true)],
  ['409 conflict/different_filesystem', 'POST', '/files/move', { from: home('full'), to: '/tmp/full' }],
  ['404 not_found/session_not_found', 'GET', '/exec/absent'],
  ['404 not_found/session_not_found', 'GET', '/exec/absent/output'],
  ['404 not_found/session_not_found', 'POST', '/exec/absent/signal', { signal: 'SIGTERM' }],
  ['404 not_found/session_not_found', 'POST', '/exec/absent/cancel'],
]
for (const [refusal, method, path, json] of REFUSED) {
  test(`${method} ${path}${json === undefined ? '' : ` ${JSON.stringify(json)}`} is ${refusal}`, async () => {
    assert.equal(await said(method, path, json), refusal)
  })
}
