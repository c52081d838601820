export function ensureClients(given: { node: string; log: (line: string) => void }): Promise<void>
