import path from 'node:path'
import ts from 'typescript'

const ROOT = path.resolve(import.meta.dirname, '../..')
const SOURCES = path.join(ROOT, 'sdk/typescript/src')
const HEAD = `# TypeScript SDK

Made by \`npm run reference\` from the sources of \`@berth/sdk\`. [The guide](../guides/typescript.md) and [the pages by task](../guides/README.md) show how it is used.

What a method throws is a \`BerthError\`: by class, \`code\` and \`reason\`, which [errors](errors.md) lists with what is retryable. Types of the API, such as \`Operation\` or \`FileInfo\`, are those of [schemas](schemas.md) and are exported as \`wire\`. Times that end with \`Ms\` or \`_ms\` are in milliseconds, with \`_seconds\` in seconds; offsets and sizes are in bytes.
`

export function typescriptPage(): string {
  const main = path.join(SOURCES, 'main.ts')
  // Signatures need neither platform types nor function bodies. Reading those would take seconds.
  const options = { target: ts.ScriptTarget.ES2024, lib: ['lib.es2024.d.ts'], types: [], strict: true, allowImportingTsExtensions: true }
  const program = ts.createProgram([main], { ...options, noEmit: true })
  const page = new Page(program)
  const source = program.getSourceFile(main)
  const module = source && page.checker.getSymbolAtLocation(source)
  if (!module) throw new Error(`${main} exports nothing`)
  return page.of(page.checker.getExportsOfModule(module))
}

interface Section {
  name: string
  kind: 'class' | 'error' | 'type'
  lines: string[]
}

class Page {
  readonly checker: ts.TypeChecker
  readonly #sections = new Map<ts.Symbol, Section>()
  #exported: ReadonlySet<ts.Symbol> = new Set()

  constructor(program: ts.Program) {
    this.checker = program.getTypeChecker()
  }

  of(exported: readonly ts.Symbol[]): string {
    this.#exported = new Set(exported.map((each) => this.#meant(each)))
    for (const each of this.#exported) this.#want(each)
    return this.#text()
  }

  /** Adds a section once. Types of the API have a page of their own. */
  #want(symbol: ts.Symbol): void {
    if (this.#sections.has(symbol)) return
    const declared = symbol.declarations?.find((each) => isOurs(each.getSourceFile()))
    if (declared === undefined) return
    const section: Section = { name: symbol.name, kind: 'type', lines: [] }
    this.#sections.set(symbol, section)
    if (ts.isClassDeclaration(declared)) {
      section.kind = symbol.name.endsWith('Error') ? 'error' : 'class'
      section.lines.push(...this.#class(declared))
    } else if (ts.isInterfaceDeclaration(declared) && declared.members.some(ts.isMethodSignature)) {
      section.kind = 'class'
      section.lines.push(noteOf(declared), '', ...declared.members.map((member) => this.#member(member)))
    } else if (ts.isInterfaceDeclaration(declared) || ts.isTypeAliasDeclaration(declared)) {
      this.#wantTypesIn(declared)
      section.lines.push(noteOf(declared), '', '```ts', this.#spelled(declared).replace(/^export /, ''), '```')
    } else this.#sections.delete(symbol)
  }

  #text(): string {
    const exported = [...this.#exported]
    const place = (symbol: ts.Symbol) => (exported.includes(symbol) ? exported.indexOf(symbol) : exported.length)
    const sections = [...this.#sections].toSorted(([a], [b]) => place(a) - place(b)).map(([, section]) => section)
    const of = (kind: Section['kind'], heading: string) => [
      `## ${heading}`,
      ...sections.filter((each) => each.kind === kind).map(({ name, lines }) => `### ${name}\n\n${tidied(lines)}`),
    ]
    return `${[HEAD.trimEnd(), ...of('class', 'Classes'), ...of('error', 'Errors'), ...of('type', 'Options and answers')].join('\n\n')}\n`
  }

  #class(declared: ts.ClassDeclaration): string[] {
    const lines = [noteOf(declared), '']
    const nouns: string[] = []
    for (const member of declared.members) {
      if (isHidden(member) || (ts.isConstructorDeclaration(member) && !this.#isForCallers(member))) continue
      const record = ts.isPropertyDeclaration(member) ? this.#record(`${declared.name?.text ?? ''}.${nameOf(member)}`, member) : null
      if (record === null) lines.push(this.#member(member))
      else nouns.push(...record)
    }
    return [...lines, ...nouns]
  }

  /** Omits a constructor with an unexported parameter type: only the SDK itself can call it. */
  #isForCallers(member: ts.ConstructorDeclaration): boolean {
    return member.parameters.every(({ type }) => !type || this.#namedIn(type).every((each) => this.#exported.has(each)))
  }

  /** @returns null if the property is not a record of methods. */
  #record(name: string, member: ts.PropertyDeclaration | ts.PropertyAssignment): string[] | null {
    const type = this.#recordOf(member)
    const parts = type.getProperties().flatMap(({ valueDeclaration }) => (valueDeclaration ? [valueDeclaration] : []))
    if (this.#exported.has(type.symbol) || parts.length === 0 || !parts.every((each) => isOurs(each.getSourceFile()))) return null
    const methods = parts.filter((each) => functionOf(each) !== null)
    const records = parts.flatMap((each) => {
      if (!ts.isPropertyAssignment(each) || methods.includes(each)) return []
      const record = this.#record(`${name}.${nameOf(each)}`, each)
      return record === null ? [] : [record]
    })
    if (methods.length + records.length < parts.length) return null
    return ['', `#### ${name}`, '', noteOf(member), '', ...methods.map((each) => this.#member(each)), ...records.flat()]
  }

  /** A type `ReturnType<typeof makes>` is resolved to the return type of `makes`. */
  #recordOf(member: ts.PropertyDeclaration | ts.PropertyAssignment): ts.Type {
    const { type } = member as { type?: ts.TypeNode }
    const argument = type && ts.isTypeReferenceNode(type) ? type.typeArguments?.[0] : undefined
    const makes = argument && ts.isTypeQueryNode(argument) ? this.checker.getSymbolAtLocation(argument.exprName) : undefined
    const declared = makes && this.#meant(makes).valueDeclaration
    const signature = declared && ts.isFunctionDeclaration(declared) ? this.checker.getSignatureFromDeclaration(declared) : undefined
    return signature ? this.checker.getReturnTypeOfSignature(signature) : this.checker.getTypeAtLocation(member)
  }

  #member(member: ts.Declaration): string {
    this.#wantTypesIn(functionOf(member) ?? member, false)
    const note = noteOf(member).replaceAll('\n', ' ')
    return `- \`${this.#signature(member)}\`${note === '' ? '' : `: ${note}`}`
  }

  #signature(member: ts.Declaration): string {
    const name = ts.isConstructorDeclaration(member) ? `new ${classOf(member)}` : nameOf(member)
    const found = functionOf(member)
    if (found === null) return `${name}: ${this.#typeOf(member)}`
    const type = found.type ? this.#spelled(found.type) : this.#returned(found)
    const types = found.typeParameters ? `<${found.typeParameters.map((each) => each.name.text).join(', ')}>` : ''
    const parameters = found.parameters.map((parameter) => this.#parameter(parameter)).join(', ')
    return oneLine(`${name}${types}(${parameters})${ts.isConstructorDeclaration(member) ? '' : `: ${type}`}`)
  }

  #typeOf(member: ts.Declaration): string {
    const { type } = member as { type?: ts.TypeNode }
    if (type) this.#wantTypesIn(type)
    return oneLine(type ? this.#spelled(type) : this.checker.typeToString(this.checker.getTypeAtLocation(member)))
  }

  #returned(found: ts.SignatureDeclaration): string {
    const signature = this.checker.getSignatureFromDeclaration(found)
    return signature ? this.checker.typeToString(this.checker.getReturnTypeOfSignature(signature)) : 'void'
  }

  #wantTypesIn(node: ts.Node, whole = true): void {
    for (const symbol of this.#namedIn(node, whole)) this.#want(symbol)
  }

  #namedIn(node: ts.Node, whole = true): ts.Symbol[] {
    return typesIn(node, whole).flatMap((each) => {
      const symbol = this.checker.getSymbolAtLocation(each)
      const meant = symbol && this.#meant(symbol)
      return meant?.declarations?.some((one) => isOurs(one.getSourceFile()) && !ts.isTypeParameterDeclaration(one)) ? [meant] : []
    })
  }

  /** A type imported under an alias is written with its API name. */
  #spelled(node: ts.Node): string {
    let text = node.getText()
    for (const each of typesIn(node, true).toReversed()) {
      const declared = this.checker.getSymbolAtLocation(each)?.declarations?.[0]
      const own = declared && ts.isImportSpecifier(declared) ? declared.propertyName?.text : undefined
      if (own === undefined) continue
      const at = each.getStart() - node.getStart()
      text = `${text.slice(0, at)}wire.${own}${text.slice(at + each.getText().length)}`
    }
    return text
  }

  #parameter({ name, type, questionToken, initializer, dotDotDotToken }: ts.ParameterDeclaration): string {
    const word = ts.isIdentifier(name) ? name.text.replace(/^_+/, '') : 'options'
    return `${dotDotDotToken ? '...' : ''}${word}${questionToken || initializer ? '?' : ''}${type ? `: ${this.#spelled(type)}` : ''}`
  }

  #meant(symbol: ts.Symbol): ts.Symbol {
    return symbol.flags & ts.SymbolFlags.Alias ? this.checker.getAliasedSymbol(symbol) : symbol
  }
}

function isOurs({ fileName }: ts.SourceFile): boolean {
  return fileName.startsWith(SOURCES) && !fileName.endsWith('/schemas.ts')
}

function isHidden(member: ts.ClassElement): boolean {
  return (
    (member.name !== undefined && ts.isPrivateIdentifier(member.name)) ||
    (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) !== 0
  )
}

type Named = ts.Declaration & { name?: ts.Node }

function nameOf(member: Named): string {
  const prefix = ts.isAccessor(member) ? 'get ' : ''
  const question = (member as { questionToken?: ts.Node }).questionToken ? '?' : ''
  return `${prefix}${member.name?.getText() ?? ''}${question}`
}

function classOf(member: ts.ConstructorDeclaration): string {
  return member.parent.name?.text ?? ''
}

function functionOf(member: ts.Declaration): ts.SignatureDeclaration | null {
  if (ts.isAccessor(member)) return null
  if (ts.isFunctionLike(member)) return member
  const { initializer } = member as { initializer?: ts.Node }
  return initializer && ts.isFunctionLike(initializer) ? initializer : null
}

function typesIn(node: ts.Node, whole: boolean): ts.Node[] {
  const found: ts.Node[] = []
  const visit = (each: ts.Node): void => {
    if (!whole && ts.isBlock(each)) return
    if (ts.isTypeReferenceNode(each)) found.push(each.typeName)
    if (ts.isExpressionWithTypeArguments(each)) found.push(each.expression)
    ts.forEachChild(each, visit)
  }
  visit(node)
  return found
}

function noteOf(node: ts.Node): string {
  const found = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).at(-1)
  if (!found) return ''
  const said = ts.getTextOfJSDocComment(found.comment) ?? ''
  const tags = (found.tags ?? []).map((tag) => `${capital(tag.tagName.text)}: ${ts.getTextOfJSDocComment(tag.comment) ?? ''}`)
  return [said, ...tags].join(' ').trim()
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}

function oneLine(text: string): string {
  return text.replaceAll(/\/\*\*.*?\*\/\s*/gs, '').replaceAll(/\s+/g, ' ')
}

function tidied(lines: readonly string[]): string {
  return lines
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()
}
