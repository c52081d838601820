import type { Berth, Workspace } from '../../sdk/typescript/src/main.ts'

export const TOOL_SETS = ['exec', 'files', 'terminal', 'browser', 'ports', 'lifecycle'] as const
export type ToolSet = (typeof TOOL_SETS)[number]

/** Limits of what the model may do. The API key determines the project. */
export interface Bounds {
  prefix: string
  tools: readonly ToolSet[]
  template: string
  calls_max: number
  workspaces_max: number
}

export class Refusal extends Error {}

const LISTED_MAX = 200

export class Budget {
  readonly bounds: Bounds
  readonly #berth: Berth
  readonly #opened = new Map<string, Workspace>()
  #calls = 0

  constructor(berth: Berth, bounds: Bounds) {
    this.#berth = berth
    this.bounds = bounds
  }

  spendCall(): void {
    if (this.#calls >= this.bounds.calls_max) throw new Refusal(`The budget of ${this.bounds.calls_max} calls is used up`)
    this.#calls += 1
  }

  /** The key is `prefix + name`, so other workspaces are out of reach. */
  async open(name: string): Promise<Workspace> {
    const known = this.#opened.get(name)
    if (known) return known
    this.#admit(name)
    return this.#keep(name, await this.#berth.open(this.bounds.prefix + name, { template: this.bounds.template }))
  }

  async find(name: string): Promise<Workspace> {
    const ws = this.#opened.get(name) ?? (await this.#berth.find(this.bounds.prefix + name))
    if (ws === null) throw new Refusal(`There is no workspace ${name}: open it first`)
    return ws
  }

  async fork(name: string, to: string): Promise<Workspace> {
    this.#admit(to)
    return this.#keep(to, await (await this.find(name)).fork(this.bounds.prefix + to))
  }

  /** A deleted copy no longer uses the budget. */
  async adopt(name: string, from: string, delete_copy: boolean): ReturnType<Workspace['adopt']> {
    const operation = await (await this.find(name)).adopt(await this.find(from), { delete_fork: delete_copy })
    if (delete_copy) this.#opened.delete(from)
    return operation
  }

  async delete(name: string): Promise<void> {
    await (await this.find(name)).delete()
    this.#opened.delete(name)
  }

  async list(): Promise<{ workspace: string; state: string }[]> {
    const found: { workspace: string; state: string }[] = []
    const { prefix } = this.bounds
    for await (const { key, observed_state } of this.#berth.workspaces({ key_prefix: prefix, lifetime: 'any' })) {
      found.push({ workspace: key.slice(prefix.length), state: observed_state })
      if (found.length === LISTED_MAX) break
    }
    return found
  }

  #admit(name: string): void {
    if (!this.#opened.has(name) && this.#opened.size >= this.bounds.workspaces_max)
      throw new Refusal(`The budget of ${this.bounds.workspaces_max} workspaces is used up: delete one with delete_workspace`)
  }

  #keep(name: string, ws: Workspace): Workspace {
    this.#opened.set(name, ws)
    return ws
  }
}
