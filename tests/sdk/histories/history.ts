import assert from 'node:assert/strict'
import type { Berth, OutputChunk, Workspace } from '../../../sdk/typescript/src/main.ts'
import { generatorOf } from '../../support/seed.ts'
import { argvOf, outputOf } from './commands.ts'

export interface Players {
  berth: Berth
  other: Berth
  restart(name: 'api' | 'cell', how: 'kill' | 'stop'): Promise<void>
  key: string
}

type Trouble = 'none' | 'suspend' | 'api kill' | 'api stop' | 'cell kill' | 'cell stop'

/** Percentages. Restarts are rare, because one affects all concurrent histories. */
const TROUBLES: [trouble: Trouble, percent: number][] = [
  ['suspend', 24],
  ['cell kill', 5],
  ['cell stop', 4],
  ['api kill', 4],
  ['api stop', 3],
]
const BYTES_MAX = 20_000

/**
 * The seed chooses network faults, suspends and restarts. Each command must run once, each output byte must arrive once, and each write
 * must be present once.
 */
export async function history(seed: number, { berth, other, restart, key }: Players): Promise<void> {
  const random = generatorOf(seed)
  const under_way: Promise<unknown>[] = []
  const begin = async (trouble: Trouble, id: string): Promise<void> => {
    if (trouble === 'none') return
    // The workspace may already be suspended, or held by another operation.
    if (trouble === 'suspend') return void (await (await other.workspace(id)).suspend().catch(() => undefined))
    const [name, how] = trouble.split(' ') as ['api' | 'cell', 'kill' | 'stop']
    return restart(name, how)
  }
  let ws = await berth.open(key, { template: 'base' })
  const names = ['a', 'b', 'c', 'd'].slice(0, 2 + Math.floor(random() * 3))
  for (const name of names) {
    if (random() < 0.1) ws = await ws.fork(`${key}-${name}`)
    const trouble = troubleOf(random())
    const is_before = random() < 0.5
    if (is_before) await begin(trouble, ws.id)
    const { id } = ws
    let is_begun = is_before
    const onOutput = () => {
      if (is_begun) return
      is_begun = true
      const going = begin(trouble, id)
      going.catch(() => undefined) // awaited at the end
      under_way.push(going)
    }
    await (random() < 0.2 ? echo(ws, name, random, onOutput) : count(ws, name, Math.floor(random() * BYTES_MAX), onOutput))
    await ws.files.write('/home/user/log', name, { append: true })
  }
  await Promise.all(under_way)
  // Wakes the workspace: the fake host cannot read the disks of suspended ones.
  await count(ws, 'z', 0, () => undefined)
  const ran = await Promise.all(names.map((name) => ws.files.readText(`/home/user/runs-${name}`)))
  assert.deepEqual([ran, await ws.files.readText('/home/user/log')], [names.map(() => 'x'), names.join('')])
}

function troubleOf(draw: number): Trouble {
  let percent = 0
  for (const [trouble, share] of TROUBLES) if (draw * 100 < (percent += share)) return trouble
  return 'none'
}

async function count(ws: Workspace, name: string, bytes: number, onOutput: (chunk: OutputChunk) => void): Promise<void> {
  const { ok, stdoutBytes, stderrBytes } = await ws.exec(argvOf({ kind: 'count', name, bytes }), { onOutput })
  const wanted = outputOf(name, bytes)
  assert.deepEqual([name, ok, stdoutBytes.length, stderrBytes.length], [name, true, bytes, bytes])
  assert.ok(wanted.equals(stdoutBytes) && wanted.equals(stderrBytes), `${name}: other bytes than it wrote`)
}

async function echo(ws: Workspace, name: string, random: () => number, onOutput: (chunk: OutputChunk) => void): Promise<void> {
  const command = await ws.start(argvOf({ kind: 'echo', name, bytes: 0 }), { stdin_open: true })
  const pieces = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, at) => outputOf(`${at}`, Math.floor(random() * 5000)))
  const writing = (async () => {
    for (const piece of pieces) await command.write(piece)
    await command.end()
  })()
  const [{ ok, stdoutBytes }] = await Promise.all([command.result({ onOutput }), writing])
  assert.ok(ok && Buffer.concat(pieces).equals(stdoutBytes), `${name}: ${stdoutBytes.length} bytes came back, or others`)
}
