import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Client, OpenedWorkspace } from '../support/client.ts'
import { entryOf, tarOf } from '../support/tars.ts'
import { measure, printSeconds, timed } from './harness.ts'
import { withService } from './with-service.ts'

const FILES = 100_000
const IN_ONE = 1000
const CONTENTS = 100

/** Row 18 of the performance table. */
export async function treeRows(): Promise<void> {
  await withService({}, async (_service, client) => {
    const small = await treeOf(client, 'small', nested(IN_ONE))
    const large = await treeOf(client, 'large', nested(FILES))
    const flat = await treeOf(
      client,
      'flat',
      Array.from({ length: FILES }, (_, i) => `f${i}`),
    )
    const huge = await treeOf(client, 'huge', nested(FILES))
    for (let i = 1; i < 10; i++) await fill(huge, `part-${i}`, nested(FILES))
    await using git = repository(nested(FILES))
    const changeOf = (tree: Tree) => () => timed(() => tree.change())
    const row = { row: 18, name: 'trees', title: `one change at ${FILES} files`, bar: { at_most: 0.2 } } as const
    await measure(row, { reference: () => timed(async () => git.change()), subject: changeOf(large) })
    for (const [name, tree, at_most] of [
      ['trees-large', large, 1.5],
      ['trees-flat', flat, 1.5],
      ['trees-million', huge, 2],
    ] as const) {
      const row = { row: 18, name, title: `${name}: one change beside one at ${IN_ONE} files`, bar: { at_most } }
      await measure(row, { reference: changeOf(small), subject: changeOf(tree) })
    }
    const samples: number[] = []
    for (let i = 0; i < 50; i++) samples.push(await changeOf(large)())
    printSeconds('trees-change', `one change at ${FILES} files`, samples, 0.01, 'median')
  })
}

interface Tree {
  client: Client
  workspace: OpenedWorkspace
  change(): Promise<void>
}

async function treeOf(client: Client, key: string, names: string[]): Promise<Tree> {
  const workspace = await client.open(key, { mode: 'file_first' })
  let turn = 0
  const tree: Tree = {
    client,
    workspace,
    async change() {
      turn += 1
      const name = names[(turn * 7919) % names.length] ?? ''
      const answer = await client.tool(workspace, `/files?path=/home/user/${name}`, { method: 'PUT', bytes: Buffer.from(`change ${turn}`) })
      if (answer.status !== 200) throw new Error(`the gateway answered ${answer.status}`)
    },
  }
  await fill(tree, '', names)
  return tree
}

async function fill({ client, workspace }: Tree, below: string, names: string[]): Promise<void> {
  const at = below === '' ? '/home/user' : `/home/user/${below}`
  // Several tars, because a tar's entry limit also counts directories.
  for (let from = 0; from < names.length; from += 50_000) {
    const entries = names.slice(from, from + 50_000).map((name, i) => entryOf(name, `content ${i % CONTENTS}`))
    const { status, bytes } = await client.tool(workspace, `/files/tar?path=${at}&create_parents=true`, {
      method: 'PUT',
      bytes: tarOf(...entries),
    })
    if (status !== 200) throw new Error(`the gateway answered ${status}: ${bytes.toString()}`)
  }
}

function nested(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `d${Math.floor(i / 10_000)}/e${Math.floor(i / 100)}/f${i}`)
}

function repository(names: string[]) {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-bench-git-'))
  const git = (...argv: string[]) => execFileSync('git', ['-C', folder, '-c', 'gc.auto=0', ...argv], { maxBuffer: 1 << 26 })
  git('init', '-q')
  const made = new Set<string>()
  names.forEach((name, i) => {
    const directory = path.join(folder, path.dirname(name))
    if (!made.has(directory)) mkdirSync(directory, { recursive: true })
    made.add(directory)
    writeFileSync(path.join(folder, name), `content ${i % CONTENTS}`)
  })
  git('add', '.')
  git('write-tree')
  let turn = 0
  return {
    change() {
      turn += 1
      const name = names[(turn * 7919) % names.length] ?? ''
      writeFileSync(path.join(folder, name), `change ${turn}`)
      git('add', name)
      git('write-tree')
    },
    [Symbol.asyncDispose]: () => Promise.resolve(rmSync(folder, { recursive: true, force: true })),
  }
}
