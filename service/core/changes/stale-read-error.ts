/** A row has changed since it was read: `mutate` retries the whole transaction. */
export class StaleReadError extends Error {}
