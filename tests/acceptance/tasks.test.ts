// The pages of docs/guides that are ordered by task: each does the same in three languages.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { NO_PYTHON, runCommands, runPythonPage, runTypescript, type Sampled } from '../support/client-guides.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
before(async () => {
  service = await sharedService()
})
after(() => service.stop())

const LANGUAGES = {
  TypeScript: { run: runTypescript, skip: false },
  Python: { run: runPythonPage, skip: NO_PYTHON },
  'command line': { run: runCommands, skip: false },
} as const

for (const page of ['start', 'run-code', 'long-commands', 'files', 'forks'])
  for (const [language, { run, skip }] of Object.entries(LANGUAGES))
    test(`the ${language} samples of docs/guides/${page}.md print what it says`, { skip, timeout: 240_000 }, async () => {
      const { prints, printed }: Sampled = await run(`docs/guides/${page}.md`, { url: service.base_url, api_key: service.api_key })
      assert.notEqual(prints, '')
      assert.equal(printed, prints)
    })
