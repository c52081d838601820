/** Cited by code or a test, in our own words. */
export interface Clause {
  /** After `App, ` or `Cell, `, in quotation marks. */
  readonly name: string
  /** Numbered rules: code cites the second as `"Name" 2`. */
  readonly says: string | readonly string[]
  /** Empty: every route of the surface, or none. */
  readonly routes?: readonly string[]
  readonly tests: readonly string[]
}
