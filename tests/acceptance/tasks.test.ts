import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { NO_PYTHON, runCommands, runPythonPage, runTypescript, type Sampled } from '../support/client-guides.ts'
import { TASK_PAGES } from '../support/guide-samples.ts'
import { printedBy, readGuide } from '../support/readme.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
before(async () => {
  service = await sharedService()
})
after(() => service.stop())

const LANGUAGES = {
  ts: { run: runTypescript, skip: false },
  python: { run: runPythonPage, skip: NO_PYTHON },
  sh: { run: runCommands, skip: false },
} as const

for (const [page, languages] of Object.entries(TASK_PAGES))
  for (const language of languages) {
    const { run, skip } = LANGUAGES[language]
    test(`the ${language} samples of docs/guides/${page}.md print what it says`, { skip, timeout: patience(240_000) }, async () => {
      const { prints, printed }: Sampled = await run(`docs/guides/${page}.md`, { url: service.base_url, api_key: service.api_key })
      assert.notEqual(prints, '')
      assert.equal(printed, prints)
    })
  }

test('the commands of docs/guides/trees.md print what it says', { timeout: patience(240_000) }, async () => {
  const guide = readGuide('trees.md')
  assert.ok(guide.prints.length > 0)
  assert.equal(await printedBy(guide, service), guide.prints)
})
