import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { TreeEntry } from '../../contract/internal/host-trees.ts'
import type { Machine } from '../../contract/internal/host-inventory.ts'
import type { CommandHeader, Subject } from '../../contract/internal/host-subject.ts'
import type { StartRequest } from '../../contract/internal/host.ts'
import { encodeEntry, EntryReader } from '../../service/cell/filetree/executions/entries.ts'
import type { HostFailure, MachineHost } from '../../service/cell/host/hostd.ts'
import type { Guest } from './conformance.ts'

interface Suite {
  host(): MachineHost
  speak(of: string | Subject, epoch: number): CommandHeader
  startRequest(fence: CommandHeader): StartRequest
  guest(machine: Machine): Promise<Guest>
  refused(code: HostFailure['code']): (error: unknown) => boolean
}

const HOME = '/home/user'
/** So much that the host receives most of the content before the cut. */
const CUT_BYTES = 16 << 20
const PIECE_BYTES = 64 << 10
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex')
const staleOf = (digest: string) => (error: unknown) => {
  const { code, details } = error as HostFailure
  assert.deepEqual([code, details['digest']], ['tree_stale', digest])
  return true
}

export function trees({ host, speak, startRequest, guest, refused }: Suite): void {
  const fresh = (): Subject => ({ kind: 'execution', id: randomUUID() })

  const apply = (subject: Subject, from: string | null, to: string, end: 'whole' | 'cut' = 'whole') => {
    const { resources, layers, hostname: _hostname, ...fence } = startRequest(speak(subject, 1))
    const request = { ...fence, layers, disk_gib: resources.disk_gib, to: digestOf(to), ...(from === null ? {} : { from: digestOf(from) }) }
    async function* entries() {
      const size = end === 'cut' ? 2 * CUT_BYTES : Buffer.byteLength(to)
      yield Buffer.from(encodeEntry({ path: 'f', type: 'file', mode: 0o644, modified_ms: 1, size }))
      // The host then has most of the content, and has begun to apply it.
      if (end === 'cut') for (let sent = 0; sent < CUT_BYTES; sent += PIECE_BYTES) yield Buffer.alloc(PIECE_BYTES)
      if (end === 'cut') throw new Error('cut off')
      yield Buffer.from(to)
      yield Buffer.from(encodeEntry({ path: '', type: 'end' }))
    }
    return host().applyTree(request, entries())
  }
  const start = (subject: Subject, tree: string | null) =>
    host().start({ ...startRequest(speak(subject, 1)), ...(tree === null ? {} : { tree: digestOf(tree), tree_bytes: tree.length }) })

  const changesOf = async ({ subject, disk }: Pick<Machine, 'subject' | 'disk'>, has_tree: boolean): Promise<string[]> => {
    const { layers } = startRequest(speak(subject, 1))
    const stream = await host().treeChanges({ subject, disk, layers, tree: has_tree, bytes_max: 1 << 20, entries_max: 100 })
    const reader = new EntryReader(stream)
    const found: string[] = []
    for (let entry: TreeEntry = await reader.next(); entry.type !== 'end'; entry = await reader.next()) {
      let text = ''
      for await (const part of reader.content(entry.size ?? 0, 1 << 16)) text += part.toString()
      found.push(`${entry.type} ${entry.path}${text === '' ? '' : ` ${text}`}`)
    }
    return found.sort()
  }
  const stateOf = async ({ id }: Subject) => (await host().glance()).machines.find(({ subject }) => subject.id === id)?.state

  test('a copy of a tree has one digest, and a start or change for another digest is refused with it', async () => {
    const subject = fresh()
    await assert.rejects(start(subject, 'one'), staleOf(''))
    await apply(subject, null, 'one')
    await assert.rejects(start(subject, 'two'), staleOf(digestOf('one')))
    await assert.rejects(apply(subject, 'two', 'three'), staleOf(digestOf('one')))
    await apply(subject, 'one', 'two')
    const machine = await start(subject, 'two')
    assert.deepEqual(await changesOf(machine, true), [])
    await host().deleteSubject(speak(subject, 1))
    await assert.rejects(start(subject, 'two'), staleOf(''))
    await host().deleteSubject(speak(subject, 1))
  })

  test('a change that is cut short invalidates the copy, which can be made again', async () => {
    const subject = fresh()
    await apply(subject, null, 'one')
    await assert.rejects(apply(subject, 'one', 'two', 'cut'))
    for (const tree of ['one', 'two']) await assert.rejects(start(subject, tree), staleOf(''))
    await apply(subject, null, 'two')
    assert.equal((await start(subject, 'two')).subject.id, subject.id)
    await host().deleteSubject(speak(subject, 1))
  })

  test("a machine's changes are reported and freeze it, and are reported again after it has ended", async () => {
    const subject = fresh()
    const machine = await start(subject, null)
    await (await guest(machine)).writeFile(`${HOME}/made`, 'text')
    await assert.rejects(changesOf({ subject, disk: 'e9.1' }, false), refused('already_running'))
    const changes = ['directory ', 'file made text']
    assert.deepEqual(await changesOf(machine, false), changes)
    assert.equal(await stateOf(subject), 'frozen')
    await host().stop(speak(subject, 1))
    assert.deepEqual(await changesOf(machine, false), changes)
    await host().deleteDisks({ ...speak(subject, 1), names: [machine.disk] })
    await assert.rejects(changesOf(machine, false), refused('not_found'))
    await host().deleteSubject(speak(subject, 1))
  })
}
