// `npm run test:budget`.
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { AIM_MINUTES, BUDGET_FILE, budgetOf, predictedMs, readRecord } from './budget.ts'
import { allFiles } from './files.ts'

const budget = budgetOf(await allFiles(path.resolve(import.meta.dirname, '../..')), readRecord())
writeFileSync(BUDGET_FILE, `${JSON.stringify(budget, null, 2)}\n`)
const minutes = predictedMs(budget, 2) / 60_000
process.stdout.write(
  `${Object.keys(budget).length} rows; a run takes ${minutes.toFixed(1)} minutes on two processors, and may take ${AIM_MINUTES}\n`,
)
