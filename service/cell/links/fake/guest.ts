/** What runs in a machine of the fake host: enough of a guest to tell whether it is the same one, and whether it stood still. */
export class FakeGuest {
  readonly memory: Map<string, string>
  readonly files: Map<string, string>
  private ran_ms: number
  private readonly began_ms: number
  private running_since: number | null
  private rested_ms: number | null = null

  constructor(from: { memory: Map<string, string>; files: Map<string, string>; ran_ms: number }) {
    this.memory = new Map(from.memory)
    this.files = from.files
    this.ran_ms = this.began_ms = from.ran_ms
    this.running_since = performance.now()
  }

  /** Grows while the guest runs, and only then. */
  count(): number {
    return this.ran_ms + (this.running_since === null ? 0 : performance.now() - this.running_since)
  }

  /** How long its processes worked: as long as it runs, until it is told to rest. */
  worked(): number {
    return this.rested_ms ?? this.count()
  }

  /** That part of it which this machine's counters know: another one was before the restore. */
  used(): number {
    return Math.max(0, this.worked() - this.began_ms)
  }

  /** It runs, and does nothing from here on but what it is told to. */
  rest(work_ms = 0): void {
    this.rested_ms = this.worked() + work_ms
  }

  pause(): void {
    this.ran_ms = this.count()
    this.running_since = null
  }

  unpause(): void {
    this.running_since ??= performance.now()
  }
}
