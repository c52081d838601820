// `npm run restore -- [settings] SOURCE`: restores a backup into an empty data directory.
import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { lockedCommand } from './backup/command.mjs'
import { restore } from './backup/restore.mjs'

await lockedCommand({
  usage: 'npm run restore -- [settings] SOURCE',
  program: fileURLToPath(import.meta.url),
  ready: ({ data_dir }) => mkdir(data_dir, { recursive: true }),
  step: restore,
})
