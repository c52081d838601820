import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { AgentLink } from '../../host/agent-link.ts'
import { bringUpload } from './files.ts'

test('a part of an upload is a file in the folder of its upload: other names and links are not read', async () => {
  const place = mkdtempSync(join(tmpdir(), 'berth-parts-'))
  try {
    const [uploads_dir, id, good] = [join(place, 'uploads'), randomUUID(), 'a'.repeat(24)]
    mkdirSync(join(uploads_dir, id), { recursive: true })
    writeFileSync(join(place, 'key'), 'the key of secrets')
    writeFileSync(join(uploads_dir, id, good), 'of the upload')
    const [link, folder] = ['b'.repeat(24), 'c'.repeat(24)]
    symlinkSync('../../key', join(uploads_dir, id, link))
    mkdirSync(join(uploads_dir, id, folder))
    const linked = randomUUID()
    symlinkSync('..', join(uploads_dir, linked))
    writeFileSync(join(place, good), 'beside the uploads')
    let brought = ''
    const agent = {
      async writeFile(_path: string, _options: object, body: Readable) {
        for await (const piece of body) brought += String(piece)
      },
    } as unknown as AgentLink
    const bring = (upload_id: string, name: string) =>
      bringUpload(agent, uploads_dir, { id: upload_id, sha256: '', parts: [{ name, bytes: 1 }] }, undefined as never)
    await bring(id, good)
    for (const [upload_id, name] of [
      [id, '../../key'],
      ['../', 'key'],
      [id, link],
      [id, folder],
      [linked, good],
    ] as const)
      await assert.rejects(bring(upload_id, name), `${upload_id} ${name}`)
    assert.equal(brought, 'of the upload')
  } finally {
    rmSync(place, { recursive: true })
  }
})
