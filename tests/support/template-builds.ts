import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { TemplateBuild } from '../../contract/schemas/template-builds.ts'
import type { Client } from './client.ts'
import { until } from './processes.ts'

export interface Builds {
  uploaded(bytes: Buffer): Promise<string>
  begin(slug: string, json: object): Promise<TemplateBuild>
  finished(build: TemplateBuild): Promise<TemplateBuild>
  log(build_id: string): Promise<string>
}

const PART_BYTES = 32 << 20
const PATIENCE_MS = 300_000

export function builds(client: Client): Builds {
  const read = async (id: string) =>
    (await client.api<TemplateBuild>(`/v1/template-builds/${id}`, { headers: { prefer: 'wait=20' } }).catch(() => undefined))?.body
  return {
    async uploaded(bytes) {
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      const { body } = await client.api<{ id: string }>('/v1/template-uploads', { json: { size_bytes: bytes.length, sha256 } })
      const headers = { 'content-type': 'application/octet-stream' }
      for (let offset = 0; offset < bytes.length; offset += PART_BYTES) {
        const part = bytes.subarray(offset, offset + PART_BYTES)
        const sent = await client.api(`/v1/template-uploads/${body.id}?offset=${offset}`, { method: 'PUT', bytes: part, headers })
        assert.equal(sent.status, 200, sent.bytes.toString())
      }
      return body.id
    },
    async begin(slug, json) {
      const begun = await client.api<{ build: TemplateBuild }>(`/v1/templates/${slug}/builds`, { json })
      assert.equal(begun.status, 202, begun.bytes.toString())
      return begun.body.build
    },
    async finished({ id }) {
      let build: TemplateBuild | undefined
      await until('the build is over', PATIENCE_MS, async () => {
        build = await read(id) // undefined: the server is restarting
        return typeof build?.completed_at === 'string'
      })
      assert.ok(build)
      return build
    },
    async log(id) {
      let text = ''
      for (let offset = 0, last = -1; offset !== last;) {
        const { body } = await client.api<{ text: string; next_offset: number }>(`/v1/template-builds/${id}/log?offset=${offset}`)
        text += body.text
        last = offset
        offset = body.next_offset
      }
      return text
    },
  }
}
