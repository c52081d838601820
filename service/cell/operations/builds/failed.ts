/** An error that the owner of the build can fix. */
export class BuildFailed extends Error {
  /** The number of the failed step, from 1. null: no step failed. */
  readonly step: number | null
  readonly exit_code: number | null

  constructor(message: string, step: number | null = null, exit_code: number | null = null, options: { cause?: unknown } = {}) {
    super(message, options)
    this.step = step
    this.exit_code = exit_code
  }
}
