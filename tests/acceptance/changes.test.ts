import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Changes } from '../../contract/schemas/cell/change.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('changes')
})
after(async () => {
  await service.stop()
})

const sh = async (script: string) => {
  const { exit, stderr } = await client.run(workspace, ['bash', '-ec', script], { user: 'root' })
  assert.equal(exit.exit_code, 0, stderr)
}
const page = async (query = '') => {
  const { status, body } = await client.tool<Changes>(workspace, `/changes?${query}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
/** Each returned line is `kind type path`. */
const list = async (prefix: string, limit = 1000) => {
  const lines: string[] = []
  for (let cursor = ''; ;) {
    const { data, next_cursor } = await page(`path_prefix=${encodeURIComponent(prefix)}&limit=${limit}${cursor}`)
    lines.push(...data.map(({ change, type, path }) => `${change} ${type} ${path}`))
    if (next_cursor === null) return lines
    cursor = `&cursor=${next_cursor}`
  }
}

test('files that the service wrote are no changes until the workspace changes them', async () => {
  assert.deepEqual(await list(''), [])
  const { summary } = await page('summary=true')
  assert.deepEqual(summary, { added: 0, modified: 0, metadata: 0, deleted: 0, replaced: 0, truncated: false })
  const forked = await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'changes-fork' } })
  assert.equal(forked.state, 'succeeded')
  const fork = await client.open('changes-fork')
  assert.deepEqual((await client.tool<Changes>(fork, '/changes')).body.data, []) // a fork's new host name and machine-id are not listed as changes
  const script = 'echo 10.0.0.1 elsewhere >> /etc/hosts; chmod 600 /etc/hostname; rm /etc/machine-id'
  await client.run(fork, ['bash', '-ec', script], { user: 'root' })
  const { data } = (await client.tool<Changes>(fork, '/changes')).body
  assert.deepEqual(
    data.map(({ change, path }) => `${change} ${path}`),
    ['modified /etc/hostname', 'modified /etc/hosts', 'deleted /etc/machine-id'],
  )
})

test('every kind of change is listed at once, and again after suspend and resume', async () => {
  await sh(`
    mkdir -p /opt/t && echo new > /opt/t/new
    chmod 600 /etc/fstab || true
    sed -i 's/root:x/root:y/' /etc/group && sed -i 's/root:y/root:x/' /etc/group
    echo more >> /etc/issue
    chmod 700 /etc/skel
    rm /etc/issue.net
    rm /etc/debian_version && mkdir /etc/debian_version && touch /etc/debian_version/below
    ln -sfn elsewhere /etc/localtime
    mv /etc/apt /etc/apt-moved
    rm -rf /etc/cron.d /etc/logrotate.d`)
  const seen = await list('/etc')
  for (const line of [
    'modified file /etc/issue',
    'metadata directory /etc/skel',
    'deleted file /etc/issue.net',
    'replaced directory /etc/debian_version',
    'added file /etc/debian_version/below',
    'deleted directory /etc/apt',
    'added directory /etc/apt-moved',
    'added directory /etc/apt-moved/apt.conf.d',
  ])
    assert.ok(seen.includes(line), `${line} is not in\n${seen.join('\n')}`)
  assert.ok(!seen.some((line) => line.startsWith('modified file /etc/group')), 'a content that came back is no modification')
  assert.ok(!seen.some((line) => line.includes(' /etc/apt/')), 'what is below a deleted directory is not walked')
  assert.deepEqual(await list('/opt'), ['added directory /opt/t', 'added file /opt/t/new'])
  for (const limit of [1, 3]) assert.deepEqual(await list('/etc', limit), seen)
  const suspended = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.equal(suspended.state, 'succeeded')
  workspace = await client.open('changes')
  assert.deepEqual(await list('/etc'), seen)
  await sh('rm /opt/t/new && echo other > /opt/t/other')
  assert.deepEqual(await list('/opt'), ['added directory /opt/t', 'added file /opt/t/other'])
})

test('the summary counts the listed changes, and hashes match the contents', async () => {
  const lines = await list('')
  const { summary, data } = await page('summary=true')
  assert.deepEqual(data, [])
  const count = (kind: string) => lines.filter((line) => line.startsWith(kind)).length
  assert.deepEqual(summary, {
    added: count('added'),
    modified: count('modified'),
    metadata: count('metadata'),
    deleted: count('deleted'),
    replaced: count('replaced'),
    truncated: false,
  })
  const { sha256 } = (await client.tool(workspace, '/files?path=/opt/t/hashed', { method: 'PUT', bytes: Buffer.from('content') })).body
  const hashed = await page('path_prefix=/opt/t/hashed&hash=true')
  assert.deepEqual(
    hashed.data.map((change) => change.sha256),
    [sha256],
  )
})

test('a cursor of another filter and a modified cursor are 400', async () => {
  const { next_cursor } = await page('limit=1')
  for (const query of [
    `limit=1&hash=true&cursor=${next_cursor}`,
    `path_prefix=/etc&cursor=${next_cursor}`,
    `cursor=A${next_cursor}`,
    'cursor=x',
  ]) {
    const { status, body } = await client.tool<{ error: { code: string } }>(workspace, `/changes?${query}`)
    assert.deepEqual([status, body.error.code], [400, 'bad_request'], query)
  }
})

test('ten thousand new files are paged without loss, also with names that are not UTF-8', async () => {
  await sh(`mkdir /opt/many && cd /opt/many && seq -f 'f%g' 10000 | xargs touch && touch $'bad\\xff'`)
  const lines = await list('/opt/many', 1000)
  assert.equal(lines.length, 10_002)
  assert.equal(new Set(lines).size, 10_002)
  assert.ok(lines.includes('added file /opt/many/bad\\xff'))
})

test('a workspace suspends and resumes while directories appear and vanish during a listing', async () => {
  await client.tool(workspace, '/exec', {
    json: {
      session_id: 'churn',
      argv: ['bash', '-c', 'cd /home/user; while true; do mkdir -p a/b/c d/e; touch a/b/f d/e/f; rm -rf a d; done'],
    },
  })
  for (let turn = 0; turn < 3; turn++) {
    const suspended = new AbortController()
    const listing = (async () => {
      while (!suspended.signal.aborted) await client.tool(workspace, '/changes?path_prefix=/home').catch(() => null)
    })()
    const { state } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
    suspended.abort()
    await listing
    assert.equal(state, 'succeeded')
    workspace = await client.open('changes')
  }
  await client.tool(workspace, '/exec/churn/cancel', { method: 'POST' })
  assert.equal((await page('path_prefix=/home&summary=true')).summary?.truncated, false)
})
