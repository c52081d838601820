import type { TemplatePackage } from '../../../../contract/schemas/template-packages.ts'

/** Of several entries with one name the first is used: it is the newest. */
export async function parseIndex(lines: AsyncIterable<string>): Promise<Map<string, TemplatePackage>> {
  const packages = new Map<string, TemplatePackage>()
  let fields = new Map<string, string>()
  const keep = () => {
    const [name, version] = [fields.get('Package'), fields.get('Version')]
    if (name !== undefined && version !== undefined && !packages.has(name)) {
      const kib = Number(fields.get('Installed-Size') ?? 0)
      const installed_bytes = Number.isSafeInteger(kib * 1024) ? kib * 1024 : 0
      packages.set(name, { name, version, description: fields.get('Description') ?? '', installed_bytes })
    }
    fields = new Map()
  }
  for await (const line of lines) {
    if (line === '') keep()
    const [, name, value] = /^(Package|Version|Description|Installed-Size): (.*)$/.exec(line) ?? []
    if (name !== undefined && value !== undefined) fields.set(name, value)
  }
  keep()
  return packages
}
