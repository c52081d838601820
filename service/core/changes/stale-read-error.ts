/** Thrown inside a change whose reads are out of date. `mutate` retries the whole transaction. */
export class StaleReadError extends Error {}
