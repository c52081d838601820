import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startApi } from '../../service/api/app.ts'
import { startCell } from '../../service/cell/app.ts'
import { createFakeHost } from '../../service/cell/host/fake/host.ts'
import { migrate } from '../../service/db/migrate.ts'
import { API_BOUNDS } from '../support/api-process.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { oldDatabase, readFixture, releases } from './fixture.ts'

const HERE = { host: '127.0.0.1', port: 0 }

function starts(database: TestDatabase, keys: string) {
  const [signing_keys_dir, secret_keys_dir] = [join(keys, 'api'), join(keys, 'cell')]
  const common = {
    listen: HERE,
    ops_listen: HERE,
    base_url: 'http://api.test',
    ports_url: 'https://ports.test',
    log_level: 'error' as const,
  }
  const limits = {
    ...API_BOUNDS,
    registration: 'invitation' as const,
    stripe: null,
    mail: { smtp_url: '', from: 'berth@localhost', directory: join(keys, 'mail') },
  }
  const park_after = { freeze_after_seconds: 0, hibernate_after_seconds: 0 }
  const folders = {
    hostd_socket: '',
    ports_socket: join(keys, 'ports'),
    secrets_socket: '',
    trees_dir: '',
    tree_revisions_kept: { seconds: 3600, count: 100 },
    secret_keys_dir,
    secret_keys_command: '',
  }
  const cell = { cell_endpoint: 'http://cell.test', cell_name: 'here', ...folders, park_after, quarantine_days: 7, warm_machines_max: 8 }
  return {
    api: () => startApi({ ...common, ...limits, database: database.options('berth_api'), signing_keys_dir }),
    cell: () => startCell({ ...common, ...cell, database: database.options('berth_cell') }, { host: createFakeHost() }),
  }
}

for (const release of releases()) {
  test(`neither api nor cell starts on a database of ${release} before it is migrated, and both do afterwards`, async () => {
    const { fixture, rows } = await readFixture(release)
    await using database = await oldDatabase(fixture.schema, rows)
    const keys = mkdtempSync(join(tmpdir(), 'berth-upgrade-'))
    try {
      const { api, cell } = starts(database, keys)
      for (const start of [api, cell]) await assert.rejects(start(), { message: /^The database lacks the migration 0/ })
      await migrate(database.url)
      for (const start of [api, cell]) {
        const process = await start()
        await process.close()
      }
    } finally {
      rmSync(keys, { recursive: true })
    }
  })
}
