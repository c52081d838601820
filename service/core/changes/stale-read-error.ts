/** `mutate` retries the whole transaction. */
export class StaleReadError extends Error {}
