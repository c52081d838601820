/** The reads of a change are out of date: `mutate` retries the whole transaction. */
export class StaleReadError extends Error {}
