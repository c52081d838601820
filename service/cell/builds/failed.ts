/** Why a build made nothing: what its owner did, and can change. */
export class BuildFailed extends Error {
  /** Of the step in the plan, from 1; null: of none. */
  readonly step: number | null
  readonly exit_code: number | null

  constructor(message: string, step: number | null = null, exit_code: number | null = null, options: { cause?: unknown } = {}) {
    super(message, options)
    this.step = step
    this.exit_code = exit_code
  }
}
