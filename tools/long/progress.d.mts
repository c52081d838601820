export const PROGRESS_VARIABLE: string
export function passedFiles(file: string): string[]
export function notePassed(file: string, test_file: string): void
