/** A guest of the fake host. Tests see in it whether it is the same guest, and whether it was paused. */
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

  /** Milliseconds that the guest has run, without pauses. */
  count(): number {
    return this.ran_ms + (this.running_since === null ? 0 : performance.now() - this.running_since)
  }

  /** Milliseconds that the guest's processes worked: as long as the guest runs, until `rest`. */
  worked(): number {
    return this.rested_ms ?? this.count()
  }

  /** The work since the last restore, which this machine's counters show. */
  used(): number {
    return Math.max(0, this.worked() - this.began_ms)
  }

  /** From here on the guest runs idle, after `work_ms` more of work. */
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
