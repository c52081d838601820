// `npm run reference`: writes docs/reference. Needs Python 3.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clientPages } from './reference/client-pages.ts'
import { pages } from './reference/pages.ts'

const folder = join(import.meta.dirname, '../docs/reference')
const written = { ...pages(), ...clientPages() }
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
for (const [name, text] of Object.entries(written)) writeFileSync(join(folder, name), text)
