/** Code or a test cites a clause of the contract as its source. The words are our own. */
export interface Clause {
  /** As cited after `App, ` or `Cell, `, in quotation marks. */
  readonly name: string
  /** One text, or numbered rules: code cites the second as `"Name" 2`. */
  readonly says: string | readonly string[]
  /** Routes where callers meet the clause. Empty: every route of the surface, or none. */
  readonly routes?: readonly string[]
  readonly tests: readonly string[]
}
