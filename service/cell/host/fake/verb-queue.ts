import type { CommandHeader, VolumeHeader } from '../../../../contract/internal/host-subject.ts'
import type { MachineHost } from '../hostd.ts'
import { subjectName } from '../subject.ts'
import { raiseFence, refuseLower, refuseStranger, silence, type World } from './world.ts'

export type Verb = Exclude<
  keyof MachineHost,
  | 'claim'
  | 'inventory'
  | 'glance'
  | 'stats'
  | 'measureDisks'
  | 'measureVolumes'
  | 'readDisk'
  | 'listLayer'
  | 'keepLayers'
  | 'layers'
  | 'dropLayers'
  | 'applyTree'
  | 'treeChanges'
  | 'egressDenials'
  | 'events'
  | 'close'
>
export type When = 'before' | 'after'
export type Hook = (request: CommandHeader | VolumeHeader) => Promise<void> | void

export interface Done {
  verb: Verb
  subject: (CommandHeader | VolumeHeader)['subject']
  step: string
}

/** Runs one verb at a time per subject, refuses lower fencing tokens, and does each step once, like hostd. */
export class VerbQueue {
  reachable = true
  readonly done: Done[] = []
  private readonly world: World
  private readonly latency_ms: number
  private readonly remembered = new Map<string, Promise<unknown>>()
  private readonly tails = new Map<string, Promise<unknown>>()
  private readonly hooks: { verb: Verb; when: When; hook: Hook }[] = []

  constructor(world: World, latency_ms: number) {
    this.world = world
    this.latency_ms = latency_ms
  }

  verb<Q extends CommandHeader | VolumeHeader, A>(name: Verb, work: (request: Q) => A): (request: Q) => Promise<A> {
    return async (request) => {
      this.speak()
      refuseStranger(this.world)
      raiseFence(this.world, subjectName(request.subject), request.fence)
      const key = `${subjectName(request.subject)} ${request.fence} ${name} ${request.step}`
      const known = this.remembered.get(key)
      const answer = known === undefined ? this.begin(name, request, work) : (known as Promise<A>) // the key names the verb
      this.remembered.set(key, answer)
      const value = await answer
      if (known === undefined) await this.runHooks(name, 'after', request)
      this.speak()
      return value
    }
  }

  /** A verb outside the queue that runs at each call: its fencing token is checked, but not raised. */
  beside<Q extends CommandHeader, A>(name: Verb, work: (request: Q) => A): (request: Q) => Promise<A> {
    return async (request) => {
      this.speak()
      refuseStranger(this.world)
      await this.runHooks(name, 'before', request)
      refuseLower(this.world, subjectName(request.subject), request.fence)
      this.done.push({ verb: name, subject: request.subject, step: request.step })
      const answer = work(request)
      await this.runHooks(name, 'after', request)
      this.speak()
      return answer
    }
  }

  intercept(verb: Verb, when: When, hook: Hook): Disposable {
    const entry = { verb, when, hook }
    this.hooks.push(entry)
    return {
      [Symbol.dispose]: () => {
        const at = this.hooks.indexOf(entry)
        if (at >= 0) this.hooks.splice(at, 1)
      },
    }
  }

  /** While unreachable, the fake answers nothing, even if the work was done. */
  private speak(): void {
    if (!this.reachable) throw silence()
  }

  forget(): void {
    this.remembered.clear()
  }

  private begin<Q extends CommandHeader | VolumeHeader, A>(name: Verb, request: Q, work: (request: Q) => A): Promise<A> {
    const run = async () => {
      await this.runHooks(name, 'before', request)
      if (this.latency_ms > 0) await new Promise((resolve) => setTimeout(resolve, this.latency_ms))
      // A higher fencing token may have arrived while the verb was queued.
      refuseLower(this.world, subjectName(request.subject), request.fence)
      this.done.push({ verb: name, subject: request.subject, step: request.step })
      return work(request)
    }
    const answer = (this.tails.get(subjectName(request.subject)) ?? Promise.resolve()).then(run)
    this.tails.set(
      subjectName(request.subject),
      answer.catch(() => undefined), // the caller gets the error; the queue continues
    )
    return answer
  }

  private async runHooks(verb: Verb, when: When, request: CommandHeader | VolumeHeader): Promise<void> {
    for (const one of [...this.hooks]) if (one.verb === verb && one.when === when) await one.hook(request)
  }
}
