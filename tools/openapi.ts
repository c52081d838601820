// `npm run openapi`: writes docs/openapi.json, and generates the types of the SDKs from it.
import { writeFileSync } from 'node:fs'
import { describe } from '../contract/openapi.ts'
import { APP_ROUTES } from '../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../contract/routes/cell/all.ts'
import { pythonTypes } from './sdk/python-types.ts'
import { type Description, sdkTypes } from './sdk/types.ts'

const description = describe([...APP_ROUTES, ...CELL_ROUTES], '/')
writeFileSync(new URL('../docs/openapi.json', import.meta.url), `${JSON.stringify(description, null, 2)}\n`)
writeFileSync(new URL('../sdk/typescript/src/schemas.ts', import.meta.url), sdkTypes(description as unknown as Description))
writeFileSync(new URL('../sdk/python/berth/types.py', import.meta.url), pythonTypes(description as unknown as Description))
