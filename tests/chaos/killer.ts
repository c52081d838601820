import type { ChildName, Service } from '../support/service.ts'
import type { History } from './history.ts'
import { forgetMemory, type Believed } from './model.ts'
import type { Random } from './random.ts'

const TARGETS = { cell: 5, api: 3, hostd: 5, postgres: 2, supervisor: 1, machine: 3, everything: 2, cell_stands: 3, hostd_stands: 2 }
/** Callers time out, and another process overtakes the stopped one. */
const STANDS_SECONDS = [1, 12] as const

export interface KillerOptions {
  service: Service
  history: History
  random: Random
  workspaces: Believed[]
  every_seconds: [min: number, max: number]
}

export async function kill(options: KillerOptions, stopped: () => boolean): Promise<void> {
  const { history, random, every_seconds } = options
  while (!stopped()) {
    const until_ms = performance.now() + random.between(...every_seconds) * 1000
    while (performance.now() < until_ms && !stopped()) await new Promise((resolve) => setTimeout(resolve, 100))
    if (stopped()) return
    const target = random.weighed(TARGETS)
    history.note(`killed_${target}`)
    await killOne(options, target)
    const began_ms = performance.now()
    try {
      await options.service.ready()
      const after_ms = Math.round(performance.now() - began_ms)
      history.note('serves_again', { target, after_ms })
      history.most('slowest_to_serve_ms', after_ms)
    } catch (error) {
      history.violate('R5: the service does not serve again', { target, error: String(error).slice(0, 2000) })
    }
  }
}

async function killOne({ service, history, random, workspaces }: KillerOptions, target: keyof typeof TARGETS): Promise<void> {
  if (target === 'everything') {
    for (const child of ['supervisor', 'cell', 'api', 'hostd', 'postgres'] satisfies ChildName[]) await killChild(service, history, child)
    return
  }
  if (target === 'cell_stands' || target === 'hostd_stands')
    return standStill(service, target === 'cell_stands' ? 'cell' : 'hostd', random.between(...STANDS_SECONDS) * 1000)
  if (target !== 'machine') return killChild(service, history, target)
  const seen = random.pick(workspaces)
  // Deaths are counted before the kill, and again after it for changes acknowledged in between.
  seen.deaths += 1
  forgetMemory(seen.content)
  await service.kill_machine(seen.id).catch(() => history.note('no_machine_to_kill', { id: seen.id }))
  seen.deaths += 1
  forgetMemory(seen.content)
}

async function standStill(service: Service, child: ChildName, ms: number): Promise<void> {
  const pid = service.pid(child)
  process.kill(pid, 'SIGSTOP')
  await new Promise((resolve) => setTimeout(resolve, ms))
  process.kill(pid, 'SIGCONT')
}

async function killChild(service: Service, history: History, child: ChildName): Promise<void> {
  await service.kill9(child).catch(() => history.note('was_dead_already', { child }))
}
