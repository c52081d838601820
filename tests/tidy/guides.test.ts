import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { guides, isSetUp, NOT_RUN, notRun, RUN_BY, type Sample, samplesOf } from '../support/guide-samples.ts'

const TESTS = path.resolve(import.meta.dirname, '..')
const SAMPLES = guides().flatMap(samplesOf)
const runs = ({ page, language }: Sample) => RUN_BY.some((each) => each.page === page && each.languages.includes(language))

test('a test runs each sample of each guide, or the table says why none can', () => {
  const samples = SAMPLES.filter((sample) => sample.language !== 'text' && !isSetUp(sample))
  const missing = samples.filter((sample) => !runs(sample) && notRun(sample) === undefined)
  assert.deepEqual(missing, [])
})

test('each exception matches exactly one sample', () => {
  for (const one of NOT_RUN) assert.equal(SAMPLES.filter((sample) => notRun(sample) === one).length, 1, `${one.page}: ${one.begins}`)
})

test('each page of the table has samples in its languages, and its test names the page or reads the table', () => {
  for (const { page, languages, test: file } of RUN_BY) {
    const found = new Set(samplesOf(page).map(({ language }) => language))
    for (const language of languages) assert.ok(found.has(language), `${page} has no ${language}`)
    assert.ok(existsSync(path.join(TESTS, file)), file)
    const source = readFileSync(path.join(TESTS, file), 'utf8')
    assert.ok(source.includes(page) || source.includes('TASK_PAGES'), `${file} does not run ${page}`)
  }
})

test('no guide declares a JSON body without sending one', () => {
  const lying = SAMPLES.filter(({ text }) => /content-type: application\/json/i.test(text) && !/ -d |--data|--json/.test(text))
  assert.deepEqual(lying, [])
})
