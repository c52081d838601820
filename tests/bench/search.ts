import type { Client, OpenedWorkspace } from '../support/client.ts'
import { measure, timed } from './harness.ts'
import { SMALL_CAPS } from './settings.ts'
import { withService } from './with-service.ts'

const FOLDERS = 100
const IN_ONE = 1000
const FILES = FOLDERS * IN_ONE
const TREE = '/home/user/tree'
const RARE = 'a needle that one file has'
const MADE = `
import os
for d in range(${FOLDERS}):
    os.makedirs(f'${TREE}/d{d:03}')
    for f in range(${IN_ONE}):
        with open(f'${TREE}/d{d:03}/f{f:04}', 'w') as file:
            file.write(f'file {f} of {d}\\n' * 20)
with open(f'${TREE}/d{${FOLDERS} - 1:03}/f0500', 'a') as file:
    file.write('${RARE}\\n')
`
const ONCE = { pairs: 5, samples_max: 1 }

export const searchRows = (only?: string) => withService({ pool_image_gib: 6 }, (_service, client) => rows(client, only))

async function rows(client: Client, only: string | undefined): Promise<void> {
  const running = await made(client, 'bench-search-running')
  const asleep = await suspended(client, await made(client, 'bench-search-asleep'))
  if (only !== 'changes') {
    await measure(
      {
        row: 0,
        name: 'search',
        title: `search of ${FILES} files in a running guest, of the same on a suspended disk`,
        bar: { at_most: 1.2 },
      },
      { reference: () => timed(() => searched(client, asleep)), subject: () => timed(() => searched(client, running)) },
      ONCE,
    )
  }
  if (only !== 'files') {
    const title = `changes of ${FILES} files in a running guest, of a recursive list of them on a suspended disk`
    await measure(
      { row: 0, name: 'changes', title, bar: { at_most: 1.2 } },
      { reference: () => timed(() => listed(client, asleep)), subject: () => timed(() => changed(client, running)) },
      ONCE,
    )
    console.log(`their summary: ${Math.round(await timed(() => client.tool(running, '/changes?summary=true')))} ms`)
  }
}

async function made(client: Client, key: string): Promise<OpenedWorkspace> {
  const workspace = await client.open(key, SMALL_CAPS)
  const { exit, stderr } = await client.run(workspace, ['python3', '-c', MADE])
  if (exit.exit_code !== 0) throw new Error(stderr)
  return workspace
}

async function suspended(client: Client, workspace: OpenedWorkspace): Promise<OpenedWorkspace> {
  const { state } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  if (state !== 'succeeded') throw new Error(`the suspend ${state}`)
  return { ...workspace, token: await client.token(workspace.id) }
}

async function searched(client: Client, workspace: OpenedWorkspace): Promise<void> {
  const { status, body } = await client.tool<Found>(workspace, '/files/search', { json: { path: TREE, pattern: RARE } })
  if (status !== 200 || body.matches?.length !== 1 || body.files_scanned !== FILES) throw new Error(`${status}: ${JSON.stringify(body)}`)
}

interface Found {
  matches?: unknown[]
  files_scanned?: number
}

interface Page {
  data?: unknown[]
  entries?: unknown[]
  next_cursor?: string | null
}

const changed = (client: Client, workspace: OpenedWorkspace) => paged(client, workspace, `/changes?path_prefix=${TREE}&limit=1000`)
const listed = (client: Client, workspace: OpenedWorkspace) =>
  paged(client, workspace, `/files/list?path=${TREE}&recursive=true&limit=1000`)

async function paged(client: Client, workspace: OpenedWorkspace, path: string): Promise<void> {
  let entries = 0
  for (let cursor: string | null = ''; cursor !== null;) {
    const at: string = cursor === '' ? path : `${path}&cursor=${encodeURIComponent(cursor)}`
    const { status, body }: { status: number; body: Page } = await client.tool<Page>(workspace, at)
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`)
    entries += (body.data ?? body.entries ?? []).length
    cursor = body.next_cursor ?? null
  }
  if (entries < FILES) throw new Error(`${entries} entries`)
}
