/** What runs in a machine of the fake host: enough of a guest to tell whether it is the same one, and whether it stood still. */
export class FakeGuest {
  readonly memory: Map<string, string>
  readonly files: Map<string, string>
  private ran_ms: number
  private running_since: number | null

  constructor(from: { memory: Map<string, string>; files: Map<string, string>; ran_ms: number }) {
    this.memory = new Map(from.memory)
    this.files = from.files
    this.ran_ms = from.ran_ms
    this.running_since = performance.now()
  }

  /** Grows while the guest runs, and only then. */
  count(): number {
    return this.ran_ms + (this.running_since === null ? 0 : performance.now() - this.running_since)
  }

  pause(): void {
    this.ran_ms = this.count()
    this.running_since = null
  }

  unpause(): void {
    this.running_since ??= performance.now()
  }
}
