/** Thrown if a row has changed since it was read: `mutate` then retries the whole transaction. */
export class StaleReadError extends Error {}
