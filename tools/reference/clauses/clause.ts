/** A rule of a specification that code or a test cites, in our own words. */
export interface Clause {
  /** The name in a citation: it follows `App, ` or `Cell, `, in quotation marks. */
  readonly name: string
  /** A list has numbered rules: code cites the second as `"Name" 2`. */
  readonly says: string | readonly string[]
  /** Routes to which the rule applies. Empty: every route of the surface, or none. */
  readonly routes?: readonly string[]
  readonly tests: readonly string[]
}
