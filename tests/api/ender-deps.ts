import pino from 'pino'
import type { endAll } from '../../service/api/lifecycle/organizations/ender.ts'
import { readerOf } from '../../service/db/reader.ts'
import type { World } from './support.ts'

export function openApiDeps({ database, clock, ids }: World): Parameters<typeof endAll>[0] {
  const deps = { db: database.api, reads: readerOf(database.api), clock, ids, logger: pino({ level: 'silent' }) }
  return deps
}
