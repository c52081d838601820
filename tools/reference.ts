// `npm run reference`: writes docs/reference from the contract.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pages } from './reference/pages.ts'

const folder = join(import.meta.dirname, '../docs/reference')
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
for (const [name, text] of Object.entries(pages())) writeFileSync(join(folder, name), text)
