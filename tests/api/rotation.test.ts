import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { cellChannels, openListener } from '../../service/db/listen.ts'
import { world, type World } from './support.ts'
import { patience } from '../support/patience.ts'
import { admin as adminOn } from '../support/admin.ts'

let w: World
let tokens: string
before(async () => {
  w = await world()
  tokens = `/v1/workspaces/${await w.running('rotation')}/tool-tokens`
})
after(() => w[Symbol.asyncDispose]())

const admin = (...args: string[]) => adminOn(w.database.url, ...args)
const kids = async () => (await w.get('/v1/.well-known/tool-token-keys', { as: null })).body.keys.map((key: { kid: string }) => key.kid)
const minted = async (base?: string) => (await w.post(tokens, undefined, base === undefined ? {} : { base })).body.token as string
const kidOf = (token: string) => decodeProtectedHeader(token).kid

test('after a rotation every process signs with one new key; both verify for 16 minutes, then only the new one', async () => {
  const second = await w.second()
  const old_token = await minted()
  const old = kidOf(old_token)
  assert.deepEqual(await kids(), [old])
  assert.equal(await admin('keys', 'rotate'), old)
  const deadline = Date.now() + patience(60_000)
  while (kidOf(await minted()) === old || kidOf(await minted(second)) === old) assert.ok(Date.now() < deadline, 'the old key still signs')
  const token = await minted()
  const fresh = kidOf(token)
  assert.equal(kidOf(await minted(second)), fresh)
  assert.deepEqual(await kids(), [fresh, old])
  const published = createLocalJWKSet((await w.get('/v1/.well-known/tool-token-keys', { as: null })).body)
  for (const each of [old_token, token]) await jwtVerify(each, published)
  try {
    w.clock.ahead_ms = (15 * 60 + 50) * 1000
    assert.deepEqual(await kids(), [fresh, old])
    w.clock.ahead_ms = (16 * 60 + 1) * 1000
    assert.deepEqual(await kids(), [fresh])
  } finally {
    w.clock.ahead_ms = 0
  }
})

test('admin sets the watermark of a workspace and tells its cell', async () => {
  const workspace_id = await w.running('watermark')
  const listener = await openListener(w.database.options('berth_cell'), cellChannels(w.cell_id))
  try {
    const told = new Promise<string | null>((resolve) => listener.on('berth_workspace', resolve))
    const before = w.clock.now()
    // The command would wait 45 s for a cell that was seen lately, and no cell confirms here.
    await w.database.superuser
      .updateTable('cells')
      .set({ seen_at: new Date(0) })
      .execute()
    await admin('workspace', 'revoke-tokens', workspace_id)
    assert.equal(await told, workspace_id)
    const { tokens_revoked_before } = await w.database.cell
      .selectFrom('workspaces')
      .select('tokens_revoked_before')
      .where('id', '=', workspace_id)
      .executeTakeFirstOrThrow()
    assert.ok(tokens_revoked_before !== null && tokens_revoked_before >= before)
  } finally {
    await listener.close()
  }
})

test("a retired key's file loses its private half, and a process that starts later uses the newest key", async () => {
  const now = kidOf(await minted())
  const files = readdirSync(w.keys_dir).filter((name) => name.startsWith('tool-token-key'))
  const read = (name: string) => JSON.parse(readFileSync(join(w.keys_dir, name), 'utf8')) as { kid: string; d?: string }
  assert.deepEqual(
    files.map((name) => [read(name).kid === now, read(name).d !== undefined, (statSync(join(w.keys_dir, name)).mode & 0o777).toString(8)]),
    [
      [true, true, '600'],
      [false, false, '600'],
    ],
  )
  assert.equal(kidOf(await minted(await w.second())), now)
})
