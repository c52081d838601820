export interface Schema {
  title?: string
  description?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  format?: string
  pattern?: string
  contentEncoding?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  items?: Schema
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
}

/** Describes a type as `string (uuid)`, `array of [Workspace](…)` or `"a", "b"`. */
export function typeText(schema: Schema): string {
  if (schema.title !== undefined) return `[${schema.title}](schemas.md#${schema.title.toLowerCase()})`
  if (schema.enum) return schema.enum.map((word) => code(JSON.stringify(word))).join(', ')
  if ('const' in schema) return code(JSON.stringify(schema.const))
  if (schema.anyOf) return schema.anyOf.map(typeText).join(' or ')
  if (schema.items) return `array of ${typeText(schema.items)}`
  const type = Array.isArray(schema.type) ? schema.type.join(' or ') : (schema.type ?? 'anything')
  const kind = schema.format ?? schema.contentEncoding
  return kind === undefined ? type : `${type} (${kind})`
}

export function boundsText(schema: Schema): string {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema
  const bounds = [
    between(minimum, maximum, ''),
    between(minLength, maxLength, ' characters'),
    between(minItems, maxItems, ' items'),
    schema.uniqueItems ? 'no two alike' : '',
    schema.default === undefined ? '' : `default ${code(JSON.stringify(schema.default))}`,
    schema.pattern === undefined ? '' : `matches ${code(schema.pattern)}`,
    schema.additionalProperties === false ? 'nothing unnamed' : '',
  ]
  return bounds.filter((each) => each !== '').join('; ')
}

function between(lowest: number | undefined, highest: number | undefined, unit: string): string {
  if (lowest === undefined && highest === undefined) return ''
  if (highest === undefined) return `at least ${lowest ?? 0}${unit}`
  if (lowest === undefined) return `at most ${highest}${unit}`
  return `${lowest} to ${highest}${unit}`
}

export function code(text: string): string {
  return text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``
}

/** An unescaped bar would end a cell. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n')
}

export function propertyRows(schema: Schema, prefix = ''): string[][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const path = `${prefix}${name}`
    const required = schema.required?.includes(name) ? 'yes' : ''
    const notes = [property.description ?? '', boundsText(property)].filter((each) => each !== '').join('; ')
    const inner = property.title === undefined ? propertyRows(property, `${path}.`) : []
    return [[code(path), typeText(property), required, notes], ...inner]
  })
}

export const PROPERTY_HEADS = ['Field', 'Type', 'Required', 'Notes']
