/** A clause of the contract that code or a test names as its source, restated in our own words. */
export interface Clause {
  /** As code writes it behind `App, ` or `Cell, `, in quotation marks. */
  readonly name: string
  /** One text, or numbered rules: code names the second of them `"Name" 2`. */
  readonly says: string | readonly string[]
  /** Where callers meet it: ids of routes. Empty where it holds for every route of the surface, or for none. */
  readonly routes?: readonly string[]
  /** Files of tests that hold Berth to it. */
  readonly tests: readonly string[]
}
