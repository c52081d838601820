export interface Schema {
  $ref?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  patternProperties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  required?: string[]
  description?: string
}

export interface Description {
  components: { schemas: Record<string, Schema> }
  'x-error-codes': Record<string, Record<string, { retryable: boolean; reasons?: (string | { reason: string })[] }>>
}

const HEAD = `// Made by \`npm run openapi\` from the contract. Do not change it by hand.
// An answer may have further properties, and further words where a type lists some: treat what you do not know as something new.
`

export function sdkTypes(api: Description): string {
  const declared = Object.entries(api.components.schemas).map(([name, schema]) => `export type ${name} = ${typeOf(schema, '')}\n`)
  const codes = new Set(Object.values(api['x-error-codes']).flatMap((of_surface) => Object.keys(of_surface)))
  return [HEAD, ...declared, `/** Codes of refusals. */\nexport type ErrorCode = ${union([...codes])}\n`].join('\n')
}

function typeOf(schema: Schema, indent: string): string {
  if (schema.$ref !== undefined) return schema.$ref.replace('#/components/schemas/', '')
  if (schema.anyOf) return schema.anyOf.map((each) => grouped(typeOf(each, indent))).join(' | ')
  if ('const' in schema) return literal(schema.const)
  if (schema.enum) return union(schema.enum)
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type }, indent)).join(' | ')
  switch (schema.type) {
    case 'object':
      return objectOf(schema, indent)
    case 'array':
      return `${grouped(typeOf(schema.items ?? {}, indent))}[]`
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type
    case 'integer':
    case 'number':
      return 'number'
    default:
      return 'unknown'
  }
}

function objectOf({ properties = {}, patternProperties, additionalProperties, required = [] }: Schema, indent: string): string {
  const deeper = `${indent}  `
  const lines = Object.entries(properties).map(([name, schema]) => {
    const note = schema.description === undefined ? '' : `${deeper}/** ${schema.description.replaceAll('*/', '* /')} */\n`
    return `${note}${deeper}${/^\w+$/.test(name) ? name : `'${name}'`}${required.includes(name) ? '' : '?'}: ${typeOf(schema, deeper)}\n`
  })
  if (lines.length > 0) return `{\n${lines.join('')}${indent}}`
  const rest = patternProperties ? Object.values(patternProperties)[0] : additionalProperties
  return `Record<string, ${typeof rest === 'object' ? typeOf(rest, indent) : 'unknown'}>`
}

function grouped(type: string): string {
  return type.includes(' | ') && !type.startsWith('{') ? `(${type})` : type
}

function union(values: readonly unknown[]): string {
  return values.map(literal).join(' | ')
}

function literal(value: unknown): string {
  return typeof value === 'string' ? `'${value.replaceAll("'", "\\'")}'` : JSON.stringify(value)
}
