// `npm run openapi`: writes docs/openapi.json from the route tables.
import { writeFileSync } from 'node:fs'
import { describe } from '../contract/openapi.ts'
import { APP_ROUTES } from '../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../contract/routes/cell/all.ts'

const path = new URL('../docs/openapi.json', import.meta.url)
writeFileSync(path, `${JSON.stringify(describe([...APP_ROUTES, ...CELL_ROUTES], '/'), null, 2)}\n`)
