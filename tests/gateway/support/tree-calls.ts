import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { type Bench, type BenchOptions, openBench, refusalOf } from './gateway.ts'

export async function openTreeBench(options: BenchOptions = {}): Promise<Bench> {
  const bench = await openBench(options)
  await asTree(bench)
  return bench
}

async function asTree({ database: { superuser: db }, workspace_id, table, clock }: Bench): Promise<void> {
  const now = clock.now()
  await db.updateTable('workspaces').set({ mode: 'file_first', tree_revision: 0 }).where('id', '=', workspace_id).execute()
  await db.insertInto('trees').values({ workspace_id, root: null, created_at: now, updated_at: now }).execute()
  table.set(workspace_id, { mode: 'file_first', machine: null })
}

export const HOME = '/home/user'
export const q = (path: string, more: Record<string, string | number | boolean> = {}) =>
  new URLSearchParams({ path, ...Object.fromEntries(Object.entries(more).map(([name, value]) => [name, String(value)])) }).toString()
export const sha = (text: string) => createHash('sha256').update(text).digest('hex')
export const revisionOf = (response: Response) => Number(response.headers.get('x-tree-revision'))

export function treeCalls(bench: () => Bench) {
  const write = (
    path: string,
    body: string | Uint8Array<ArrayBuffer>,
    more: Record<string, string | number | boolean> = {},
    headers: Record<string, string> = {},
  ) => bench().call('PUT', `/files?${q(path, more)}`, { body, headers })
  const read = (path: string, more: Record<string, number> = {}, headers: Record<string, string> = {}) =>
    bench().call('GET', `/files?${q(path, more)}`, { headers })
  const stat = (path: string, more: Record<string, number | boolean> = {}) => bench().call('GET', `/files/stat?${q(path, more)}`)
  const list = (path: string, more: Record<string, number | string | boolean> = {}) => bench().call('GET', `/files/list?${q(path, more)}`)
  const remove = (path: string, recursive = false, headers: Record<string, string> = {}) =>
    bench().call('DELETE', `/files?${q(path, { recursive })}`, { headers })
  const mkdir = (path: string, more: object = {}, headers: Record<string, string> = {}) =>
    bench().call('POST', '/files/mkdir', { json: { path, ...more }, headers })
  const move = (from: string, to: string, overwrite = false, headers: Record<string, string> = {}) =>
    bench().call('POST', '/files/move', { json: { from, to, overwrite }, headers })
  const patch = (path: string, body: object, headers: Record<string, string> = {}) =>
    bench().call('POST', '/files/patch', { json: { path, ...body }, headers })
  const search = (body: object) => bench().call('POST', '/files/search', { json: body })
  const text = async (path: string) => (await read(path)).text()

  async function makes<T>(call: () => Promise<Response>, status: number): Promise<T> {
    const before_call = revisionOf(await stat(HOME))
    const response = await call()
    const body = response.status === 204 ? '' : await response.text()
    assert.deepEqual([response.status, revisionOf(response)], [status, before_call + 1], body)
    assert.equal(revisionOf(await stat(HOME)), before_call + 1)
    return (body === '' ? null : JSON.parse(body)) as T
  }

  async function refuses(call: () => Promise<Response>, expected: string, details?: object): Promise<void> {
    const at = revisionOf(await stat(HOME))
    const response = await call()
    const copy = response.clone()
    assert.equal(await refusalOf(response), expected)
    assert.deepEqual([revisionOf(response), revisionOf(await stat(HOME))], [at, at], expected)
    if (details !== undefined) assert.deepEqual(((await copy.json()) as { error: { details: object } }).error.details, details)
  }

  const link = async (name: string, target: string) => {
    const { trees, workspace_id } = bench()
    using publication = trees.begin(workspace_id)
    const base = (await trees.current(workspace_id))?.revision ?? 0
    await publication.publish(base, [{ kind: 'put', path: [name], entry: { type: 'symlink', modified_ms: 1, target } }])
  }

  return { write, read, stat, list, remove, mkdir, move, patch, search, text, makes, refuses, link }
}
