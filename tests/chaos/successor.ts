import { spawn } from 'node:child_process'
import { chownSync, closeSync, copyFileSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { isRunning, until } from '../support/processes.ts'
import { isOk } from '../support/ask.ts'
import { freePorts, type Service } from '../support/service.ts'
import { pidOf } from './arm.ts'

export interface Successor {
  address: string
  stop(): Promise<void>
}

interface Address {
  host: string
  port: number
}

const START_MS = 90_000
const STOP_MS = 60_000

/** @returns when the successor serves, which a cell does once it acts for the computer */
export async function startSuccessor(service: Service, name: 'api' | 'cell'): Promise<Successor> {
  const [port, ops_port] = await freePorts(2)
  if (port === undefined || ops_port === undefined) throw new Error('no free ports')
  const first = pidOf(service, name)
  const own = path.join(service.run_dir, 'config', `${name}.json`)
  const file = path.join(service.run_dir, 'config', `${name}-successor.json`)
  const address = `http://127.0.0.1:${port}`
  const config = readConfig(own)
  config.listen.port = port
  config.ops_listen.port = ops_port
  if (name === 'cell') config.cell_endpoint = address
  copyFileSync(own, file) // copies the mode, too
  writeFileSync(file, JSON.stringify(config))
  const { uid, gid } = statSync(`/proc/${first}`)
  chownSync(file, uid, gid)
  const log = openSync(path.join(service.data_dir, 'logs', `${name}-successor.log`), 'a')
  // No failpoints, and no mark by which the supervisor finds its own children.
  const [program = '', ...args] = readFileSync(`/proc/${first}/cmdline`, 'utf8').split('\0').slice(0, -1)
  const argv = args.map((each) => (each === own ? file : each))
  const child = spawn(program, argv, { uid, gid, cwd: '/', env: { PATH: process.env['PATH'] }, stdio: ['ignore', log, log] })
  closeSync(log)
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  const stop = async () => {
    child.kill('SIGTERM')
    const late = setTimeout(end, STOP_MS)
    await exit
    clearTimeout(late)
    process.off('exit', end)
    rmSync(file)
  }
  try {
    await until(`a second ${name} serves`, START_MS, () => {
      if (child.pid === undefined || !isRunning(child.pid)) throw new Error(`a second ${name} did not start`)
      return isReady(config.ops_listen)
    })
  } catch (error) {
    await stop()
    throw error
  }
  return { address, stop }
}

export function saysReady(service: Service, name: 'api' | 'cell'): Promise<boolean> {
  return isReady(readConfig(path.join(service.run_dir, 'config', `${name}.json`)).ops_listen)
}

function isReady({ host, port }: Address): Promise<boolean> {
  return isOk({ host, port, path: '/readyz' })
}

function readConfig(file: string): { listen: Address; ops_listen: Address; cell_endpoint: string } {
  return JSON.parse(readFileSync(file, 'utf8')) as ReturnType<typeof readConfig>
}
