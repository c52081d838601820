import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFailure } from '../../host/hostd.ts'
import { buildLayers, type BuildRun, type LayerDeps } from './layers.ts'

const [BASE, MADE] = ['a'.repeat(64), 'b'.repeat(64)]
const RUN = { kind: 'run', title: 'true', argv: ['true'], cwd: '/', user: 'root', env: {}, timeout_seconds: 1 } as const

function again(host: Partial<LayerDeps['host']>) {
  const said: string[] = []
  const known = new Set([MADE])
  const cache: LayerDeps['cache'] = {
    find: () => Promise.resolve(known.has(MADE) ? MADE : undefined),
    keep: () => Promise.resolve(),
    forget: () => Promise.resolve(void known.clear()),
  }
  const plan = {
    layers: [BASE],
    resources: { cpu_millis: 1, memory_mib: 1, disk_gib: 1 },
    egress: { mode: 'deny_all', rules: [], cidrs: [] },
    steps: [RUN],
    upload: null,
    settings: {},
    ceiling: null,
  }
  const run = {
    build_id: '0198c0de-0000-7000-8000-000000000001',
    operation_id: '0198c0de-0000-7000-8000-000000000002',
    fence: 1,
    plan,
    say: (text: Buffer) => void said.push(text.toString()),
    signal: new AbortController().signal,
  } as unknown as BuildRun
  const silent = { stop: () => Promise.resolve(null), deleteDisks: () => Promise.resolve() }
  return { said, known, made: buildLayers({ host: { ...silent, ...host } as LayerDeps['host'], cache, uploads_dir: null }, run) }
}

test('if every step is cached, the host is still asked to keep the layers', async () => {
  const asked: (readonly string[])[] = []
  const { made } = again({ keepLayers: (layers) => Promise.resolve(void asked.push(layers)) })
  assert.deepEqual(await made, [BASE, MADE])
  assert.deepEqual(asked, [[BASE, MADE]])
})

test('a removed layer of a cached step is made again: its step is forgotten, and runs', async () => {
  let starts = 0
  const { said, known, made } = again({
    keepLayers: () => Promise.reject(new HostFailure('layer_missing', 'It is gone', { retryable: false })),
    start: () => {
      starts += 1
      return Promise.reject(new HostFailure('no_capacity', 'There is no room', { retryable: false }))
    },
  })
  await assert.rejects(made, { code: 'no_capacity' })
  assert.deepEqual([starts, known.size], [1, 0])
  assert.match(said.join(''), /\(as before\)\n(.|\n)*all steps are run again/)
})
