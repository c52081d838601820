import { type Berth, BerthError, type Workspace } from '../../sdk/typescript/src/main.ts'

export interface Step {
  fact: string
  run(berth: Berth, ws: Workspace, person: Berth): Promise<unknown>
}

let count = 0

export const sh = (script: string) => ['sh', '-c', script]
export const unique = (name: string) => `${name}-${process.pid}-${(count += 1)}`
export const code = (expected: string) => (error: unknown) => error instanceof BerthError && error.code === expected
