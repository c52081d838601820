import type { Description, Schema } from './types.ts'

const HEAD = `"""What the API says, by field. Made by \`npm run openapi\` from the contract. Do not change it by hand.

For editors and type checkers: the SDK itself does not load it. An answer may have further fields, and further words where a
type lists some: treat what you do not know as something new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired
`
const WIDTH = 132

export function pythonTypes(api: Description): string {
  const made: string[] = []
  const names = new Set(Object.keys(api.components.schemas))
  for (const [name, schema] of Object.entries(api.components.schemas)) declare(name, schema, { made, names })
  return [HEAD, ...made].join('\n\n')
}

interface Module {
  made: string[]
  names: Set<string>
}

/** Only annotations of classes are evaluated lazily and may name later types; aliases may not. */
function declare(name: string, schema: Schema, module: Module): void {
  if (!hasFields(schema)) return void module.made.push(`${name}: TypeAlias = ${text(typeOf(schema, name, module))}\n`)
  const { properties = {}, required = [] } = schema
  const fields = Object.entries(properties).map(([field, each]) => {
    const type = typeOf(each, `${name}${pascal(field)}`, module)
    return { field, note: each.description, type: required.includes(field) ? type : `NotRequired[${type}]` }
  })
  // Otherwise uses the call form, which permits field names that are keywords or no identifiers.
  if (fields.every(({ field }) => isName(field))) {
    const lines = fields.map(({ field, note, type }) => `${comment(note)}    ${field}: ${type}\n`)
    module.made.push(`class ${name}(TypedDict):\n${lines.join('')}`)
  } else {
    const lines = fields.map(({ field, note, type }) => `${comment(note, '        ')}        ${text(field)}: ${text(type)},\n`)
    module.made.push(`${name} = TypedDict(\n    ${text(name)},\n    {\n${lines.join('')}    },\n)\n`)
  }
}

function typeOf(schema: Schema, name: string, module: Module): string {
  if (schema.$ref !== undefined) return schema.$ref.replace('#/components/schemas/', '')
  if (schema.anyOf) return union(schema.anyOf.map((each, at) => typeOf(each, at === 0 ? name : `${name}${at + 1}`, module)))
  if ('const' in schema) return literal([schema.const])
  if (schema.enum) return literal(schema.enum)
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, name, module)))
  switch (schema.type) {
    case 'object':
      if (hasFields(schema)) {
        const own = unused(name, module.names)
        declare(own, schema, module)
        return own
      }
      return `dict[str, ${valueOf(schema, name, module)}]`
    case 'array':
      return `list[${typeOf(schema.items ?? {}, `${name}Item`, module)}]`
    case 'string':
      return 'str'
    case 'boolean':
      return 'bool'
    case 'null':
      return 'None'
    case 'integer':
      return 'int'
    case 'number':
      return 'float'
    default:
      return 'Any'
  }
}

function valueOf({ patternProperties, additionalProperties }: Schema, name: string, module: Module): string {
  const rest = patternProperties ? Object.values(patternProperties)[0] : additionalProperties
  return typeof rest === 'object' ? typeOf(rest, `${name}Value`, module) : 'Any'
}

function hasFields({ type, properties = {} }: Schema): boolean {
  return type === 'object' && Object.keys(properties).length > 0
}

function unused(name: string, names: Set<string>): string {
  const own = names.has(name) ? unused(`${name}_`, names) : name
  names.add(own)
  return own
}

function union(types: readonly string[]): string {
  const distinct = [...new Set(types)]
  return distinct.length === 1 ? (distinct[0] ?? '') : `Union[${distinct.join(', ')}]`
}

function literal(values: readonly unknown[]): string {
  const word = (value: unknown) => (value === null ? 'None' : typeof value === 'boolean' ? (value ? 'True' : 'False') : text(value))
  return `Literal[${values.map(word).join(', ')}]`
}

function text(value: unknown): string {
  return JSON.stringify(value)
}

function pascal(field: string): string {
  return field.replaceAll(/(?:^|[^a-z0-9]+)([a-z0-9])/gi, (_all, first: string) => first.toUpperCase())
}

function comment(note: string | undefined, indent = '    '): string {
  if (note === undefined) return ''
  const lines = [`${indent}#:`]
  for (const word of note.split(/\s+/)) {
    const longer = `${lines.at(-1) ?? ''} ${word}`
    if (longer.length > WIDTH) lines.push(`${indent}#: ${word}`)
    else lines[lines.length - 1] = longer
  }
  return `${lines.join('\n')}\n`
}

const RESERVED = new Set(
  'False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield'.split(
    ' ',
  ),
)

function isName(field: string): boolean {
  return /^[a-z_]\w*$/i.test(field) && !RESERVED.has(field)
}
