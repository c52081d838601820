// `npm run backup -- [settings] TARGET`: copies a stopped installation.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { backup } from './backup/backup.mjs'
import { lockedCommand } from './backup/command.mjs'

await lockedCommand({
  usage: 'npm run backup -- [settings] TARGET',
  program: fileURLToPath(import.meta.url),
  ready({ data_dir }) {
    if (!existsSync(data_dir)) throw new Error(`There is no ${data_dir}.`)
  },
  step: backup,
})
