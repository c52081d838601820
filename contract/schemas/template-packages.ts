import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { Text, Word } from './common.ts'
import { ARCHITECTURES } from './recipes.ts'

const { results_max } = LIMITS.template_package
const architecture = Type.Optional(Word(ARCHITECTURES, { description: 'amd64 when absent' }))

export const PackageQuery = Type.Object({
  query: Type.Optional(Text({ minLength: 1, maxLength: 100, description: 'A part of the name; names that begin with it come first' })),
  name: Type.Optional(Text({ minLength: 1, maxLength: 100, description: 'The whole name: package_not_found where there is none' })),
  architecture,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: results_max, default: 20 })),
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
export const TemplatePackageList = Type.Object({ data: Type.Array(TemplatePackage) }, { title: 'TemplatePackageList' })

export const TemplateLanguageList = Type.Object(
  {
    data: Type.Array(
      Type.Object(
        { name: Type.String(), versions: Type.Array(Type.String({ description: 'The default at first' })), default_version: Type.String() },
        { title: 'TemplateLanguage' },
      ),
    ),
  },
  { title: 'TemplateLanguageList' },
)
