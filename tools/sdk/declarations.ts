import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SOURCES = path.join(ROOT, 'sdk/typescript/src')

/** Publishes declarations only: a consumer's compiler would check our sources with its own settings. */
export function declareSdk(folder: string): void {
  const entries = ['main.ts', 'testing/double.ts'].map((entry) => path.join(SOURCES, entry))
  const program = ts.createProgram(entries, {
    target: ts.ScriptTarget.ES2024,
    lib: ['lib.es2024.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts', 'lib.dom.asynciterable.d.ts'],
    module: ts.ModuleKind.NodeNext,
    types: ['node'],
    rootDir: SOURCES,
    outDir: folder,
    declaration: true,
    emitDeclarationOnly: true,
    stripInternal: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
  })
  const emitted = program.emit(undefined, (file, text) => {
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, published(text))
  })
  const problems = [...ts.getPreEmitDiagnostics(program), ...emitted.diagnostics]
  if (problems.length > 0)
    throw new Error(
      ts.formatDiagnostics(problems, { getCanonicalFileName: String, getCurrentDirectory: () => ROOT, getNewLine: () => '\n' }),
    )
}

/** Adapts declarations to consumers, whose compiler may lack `AsyncDisposable` and does not resolve `.ts`. */
function published(text: string): string {
  const imports_resolved = text.replaceAll(/((?:from|import)\s*\(?\s*['"]\.{1,2}\/[^'"]+)\.ts(['"])/g, '$1.js$2')
  return /\bAsyncDisposable\b/.test(text) ? `/// <reference lib="esnext.disposable" />\n${imports_resolved}` : imports_resolved
}
