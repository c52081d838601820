export function isAlive(mark: { pid: number; start_time: number | undefined }): boolean
export function startTimeOf(pid: number): number | undefined
