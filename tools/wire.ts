// `npm run wire`: writes the Go structs of the internal protocols from contract/internal.
import { writeFileSync } from 'node:fs'
import { WIRE_FILES } from './wire/files.ts'
import { goOf } from './wire/go.ts'

for (const file of WIRE_FILES) writeFileSync(new URL(`../${file.target}`, import.meta.url), goOf(file, WIRE_FILES))
