import Type, { type Static } from 'typebox'
import { List, PageQuery, Text, Enum } from './common.ts'
import { ARCHITECTURES } from './recipes.ts'

const architecture = Type.Optional(Enum(ARCHITECTURES, { description: 'amd64 when absent' }))

export const PackageQuery = Type.Object({
  query: Type.Optional(Text({ minLength: 1, maxLength: 100, description: 'A part of the name; names that begin with it come first' })),
  name: Type.Optional(Text({ minLength: 1, maxLength: 100, description: 'The whole name: package_not_found where there is none' })),
  architecture,
  ...PageQuery,
})

export const TemplatePackage = Type.Object(
  {
    name: Type.String(),
    version: Type.String({ description: 'That a build would install' }),
    description: Type.String(),
    installed_bytes: Type.Integer({ description: 'Without what it depends on' }),
  },
  { title: 'TemplatePackage' },
)
export type TemplatePackage = Static<typeof TemplatePackage>
export const TemplatePackageList = List(TemplatePackage, 'TemplatePackageList')

const TemplateLanguage = Type.Object(
  { name: Type.String(), versions: Type.Array(Type.String({ description: 'The default at first' })), default_version: Type.String() },
  { title: 'TemplateLanguage' },
)
export const TemplateLanguageList = List(TemplateLanguage, 'TemplateLanguageList')
