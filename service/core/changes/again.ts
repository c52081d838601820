/** Thrown inside a change: what it had seen is no longer so. The whole transaction is tried again. */
export class Again extends Error {}
