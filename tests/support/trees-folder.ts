import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const folders: string[] = []
process.once('exit', () => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })))

/** Removed when this process ends. */
export function treesFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'trees-'))
  folders.push(folder)
  return folder
}
