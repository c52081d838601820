export const LEDGER: string
export const SUITE_PARTS: { name: string; adds: string; files: RegExp }[]
export function suitePartOf(file: string): string | undefined
