import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { cliPage } from './cli-page.ts'
import { typescriptPage } from './typescript-page.ts'

export function clientPages(): Record<string, string> {
  return { 'typescript.md': typescriptPage(), 'python.md': pythonPage(), 'cli.md': cliPage() }
}

function pythonPage(): string {
  return execFileSync('python3', [path.join(import.meta.dirname, 'python_page.py')], { encoding: 'utf8', timeout: 60_000 })
}
