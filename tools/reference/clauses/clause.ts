/** A clause of the contract that code or a test cites as its source, in our own words. */
export interface Clause {
  /** As code cites it after `App, ` or `Cell, `, in quotation marks. */
  readonly name: string
  /** One text, or numbered rules: code cites the second as `"Name" 2`. */
  readonly says: string | readonly string[]
  /** Ids of the routes where callers meet the clause. Empty if it holds for every route of the surface, or for none. */
  readonly routes?: readonly string[]
  readonly tests: readonly string[]
}
