import ts from 'typescript'

export interface Unrecorded {
  file: string
  line: number
  within: string
}

const WRITERS = new Set(['insertInto', 'updateTable', 'deleteFrom', 'mergeInto'])
const WRITING_SQL = /\b(insert\s+into|delete\s+from|update\s+\w+(\s+(as\s+)?\w+)?\s+set)\b/i
/** Parameter type that only `core/changes/mutate.ts` makes. */
const TRANSACTION = 'ChangeTx'

/** Writes by Kysely and by SQL text. A ChangeTx parameter comes from mutate, which records the write. */
export function unrecordedWrites({ file, text }: { file: string; text: string }): Unrecorded[] {
  const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const found: Unrecorded[] = []
  const visit = (node: ts.Node): void => {
    if (isWrite(node) && !around(node).some(takesChange)) {
      const line = tree.getLineAndCharacterOfPosition(node.getStart()).line + 1
      found.push({ file, line, within: nameOf(around(node)) })
    }
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return found
}

function isWrite(node: ts.Node): boolean {
  if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) return WRITERS.has(node.expression.name.text)
  if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) return node.expression.text === 'deleteOld'
  if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) return WRITING_SQL.test(node.getText())
  return false
}

function around(node: ts.Node): ts.SignatureDeclaration[] {
  const functions: ts.SignatureDeclaration[] = []
  for (let at = node.parent; !ts.isSourceFile(at); at = at.parent) if (ts.isFunctionLike(at)) functions.push(at)
  return functions
}

function takesChange({ parameters }: ts.SignatureDeclaration): boolean {
  return parameters.some(({ type }) => type?.getText() === TRANSACTION)
}

function nameOf(functions: ts.SignatureDeclaration[]): string {
  return functions.at(-1)?.name?.getText() ?? 'the module'
}
