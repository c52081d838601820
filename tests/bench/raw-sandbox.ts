import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const COMMAND_MS = 120_000

/** A reference: the engine's own commands on the template's files. */
export interface RawSandbox {
  /** Includes the program start, as for any user of runsc. */
  runsc(...args: string[]): Promise<void>
  bundle(argv: string[]): string
  directory: string
  close(): void
}

export function createRawSandbox(runsc: string, layer: string): RawSandbox {
  const directory = mkdtempSync(path.join(tmpdir(), 'berth-bench-'))
  const state = path.join(directory, 'state')
  const lower = path.join(directory, 'layer')
  const mounts: string[] = []
  const mount = (target: string, ...args: string[]) => {
    mkdirSync(target, { recursive: true })
    execFileSync('mount', [...args, target])
    mounts.unshift(target)
  }
  mkdirSync(state)
  mount(lower, '-t', 'erofs', '-o', 'ro', layer)
  let count = 0
  const flags = [
    '--root',
    state,
    '--platform',
    'systrap',
    '--network',
    'none',
    '--overlay2',
    'none',
    '--ignore-cgroups',
    '--allow-suid',
    '--host-uds',
    'none',
  ]

  return {
    directory,
    runsc: (...args) =>
      new Promise((resolve, reject) => {
        // No pipes: a detached sandbox would keep them open, and waiting for their end would wait for it.
        const child = spawn(runsc, [...flags, ...args], { stdio: 'ignore', timeout: COMMAND_MS })
        child.once('error', reject)
        child.once('exit', (code) => {
          if (code === 0) resolve()
          else reject(new Error(`runsc ${args.join(' ')} ended with ${code}`))
        })
      }),
    bundle(argv) {
      const bundle = path.join(directory, `bundle-${count++}`)
      for (const name of ['upper', 'work']) mkdirSync(path.join(bundle, name), { recursive: true })
      const root = path.join(bundle, 'root')
      mount(root, '-t', 'overlay', '-o', `lowerdir=${lower},upperdir=${bundle}/upper,workdir=${bundle}/work`, 'overlay')
      writeFileSync(path.join(bundle, 'config.json'), JSON.stringify(specification(root, argv)))
      return bundle
    },
    close() {
      // Removes sandboxes that a failed benchmark may have left running.
      const ids = execFileSync(runsc, [...flags, 'list', '-quiet'], { encoding: 'utf8' }).split('\n')
      for (const id of ids) if (id !== '') execFileSync(runsc, [...flags, 'delete', '--force', id], { stdio: 'ignore' })
      for (const target of [...mounts, path.join(state, 'null-netns')]) execFileSync('umount', ['-lq', target], { stdio: 'ignore' })
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

function specification(root: string, args: string[]) {
  return {
    ociVersion: '1.1.0',
    process: {
      user: { uid: 0, gid: 0 },
      args,
      env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
      cwd: '/',
    },
    root: { path: root },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs' },
      { destination: '/tmp', type: 'tmpfs', source: 'tmpfs' },
    ],
    linux: { namespaces: [{ type: 'pid' }, { type: 'ipc' }, { type: 'uts' }, { type: 'mount' }, { type: 'network' }] },
  }
}
