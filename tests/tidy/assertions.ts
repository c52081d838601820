import path from 'node:path'
import ts from 'typescript'

export interface Toothless {
  file: string
  line: number
  title: string
}

export interface Source {
  file: string
  text: string
}

interface Reach {
  file: string
  /** Whether the function names `assert`, or throws. */
  asserts: boolean
  calls: Set<string>
}

interface Parsed {
  file: string
  tree: ts.SourceFile
  functions: Map<string, Reach[]>
  /** The exporting file, and the name in it. */
  imports: Map<string, { from: string; name: string }>
}

const TESTS = ['test', 'it']

/** Follows calls to any depth, in the same file and into imported sources. A test that is not found may still prove nothing. */
export function toothlessTests(sources: readonly Source[]): Toothless[] {
  const files = new Map(sources.map((source) => [source.file, parsed(source)]))
  return [...files.values()]
    .filter(({ file }) => /\.test\.(ts|mjs)$/.test(file))
    .flatMap((parsed) => testsOf(parsed.tree).map((call) => ({ parsed, call, body: call.arguments.at(-1) })))
    .filter(({ parsed, body }) => body !== undefined && !doesAssert(reachOf(parsed.file, body), files, new Set()))
    .map(({ parsed: { file, tree }, call }) => ({
      file,
      line: tree.getLineAndCharacterOfPosition(call.getStart()).line + 1,
      title: call.arguments[0]?.getText() ?? '',
    }))
}

function doesAssert(reach: Reach, files: ReadonlyMap<string, Parsed>, seen: Set<Reach>): boolean {
  if (reach.asserts) return true
  if (seen.has(reach)) return false
  seen.add(reach)
  return [...reach.calls].some((name) => functionsOf(reach.file, name, files).some((called) => doesAssert(called, files, seen)))
}

function functionsOf(file: string, name: string, files: ReadonlyMap<string, Parsed>): Reach[] {
  const found = files.get(file)
  const imported = found?.imports.get(name)
  return [
    ...(found?.functions.get(name) ?? []),
    ...(imported === undefined ? [] : (files.get(imported.from)?.functions.get(imported.name) ?? [])),
  ]
}

function parsed({ file, text }: Source): Parsed {
  const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const functions = new Map<string, Reach[]>()
  const imports = new Map<string, { from: string; name: string }>()
  walk(tree, (node) => {
    const [name, body] = namedFunction(node) ?? []
    if (name !== undefined && body !== undefined) functions.set(name, [...(functions.get(name) ?? []), reachOf(file, body)])
    if (!ts.isImportDeclaration(node) || !ts.isStringLiteral(node.moduleSpecifier)) return
    const named = node.importClause?.namedBindings
    if (named === undefined || !ts.isNamedImports(named)) return
    const from = path.join(path.dirname(file), node.moduleSpecifier.text)
    for (const each of named.elements) imports.set(each.name.text, { from, name: (each.propertyName ?? each.name).text })
  })
  return { file, tree, functions, imports }
}

function namedFunction(node: ts.Node): [string, ts.Node] | undefined {
  if ((ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node)) && node.name !== undefined && node.body !== undefined)
    return [node.name.getText(), node.body]
  if ((ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node)) && node.initializer !== undefined && isFunction(node.initializer))
    return [node.name.getText(), node.initializer]
  return undefined
}

function isFunction(node: ts.Node): boolean {
  return ts.isArrowFunction(node) || ts.isFunctionExpression(node)
}

function testsOf(tree: ts.SourceFile): ts.CallExpression[] {
  const found: ts.CallExpression[] = []
  walk(tree, (node) => {
    // With one argument it is a regular expression's `test`.
    if (ts.isCallExpression(node) && TESTS.includes(calledName(node)) && node.arguments.length > 1) found.push(node)
  })
  return found
}

function reachOf(file: string, node: ts.Node): Reach {
  const reach: Reach = { file, asserts: false, calls: new Set() }
  walk(node, (each) => {
    if (ts.isThrowStatement(each) || (ts.isIdentifier(each) && each.text === 'assert')) reach.asserts = true
    if (ts.isCallExpression(each)) reach.calls.add(calledName(each))
  })
  if (ts.isIdentifier(node)) reach.calls.add(node.text) // a test may pass a function by its name
  return reach
}

function calledName({ expression }: ts.CallExpression): string {
  return ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText()
}

function walk(node: ts.Node, see: (node: ts.Node) => void): void {
  see(node)
  ts.forEachChild(node, (child) => walk(child, see))
}
