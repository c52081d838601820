import assert from 'node:assert/strict'
import { BerthError } from '../../sdk/typescript/src/main.ts'
import { sh, type Step, unique } from './step.ts'

export const TEMPLATE_STEPS: Step[] = [
  {
    fact: 'a template is built from an upload, tried, published, listed and archived, and a build cancelled',
    async run(berth, ws, person) {
      const { templates } = berth
      await ws.exec(sh('echo content > file && tar -cf context.tar file'), { check: true })
      const { id } = await templates.upload(await ws.files.read('/home/user/context.tar'))
      const slug = unique('template')
      const begun = await templates.build(slug, { dockerfile: 'FROM base\nCOPY file /srv/\n', upload_id: id })
      let log = ''
      for await (const text of templates.buildLog(begun.id)) log += text
      assert.match(log, /step 1 of 1/)
      assert.equal((await templates.waitForBuild(begun.id)).state, 'succeeded')
      assert.equal((await templates.getBuild(begun.id)).version, 1)
      await templates.deleteUpload(id)
      const tried = await templates.test(slug, 1)
      assert.equal(await tried.files.readText('/srv/file'), 'content\n')
      await tried.close()
      assert.equal((await person.templates.publish(slug, 1)).version, 1)
      assert.equal((await templates.get(slug)).slug, slug)
      assert.ok((await templates.list().all()).some((each) => each.slug === slug))
      assert.equal((await templates.versions(slug).all()).length, 1)
      assert.equal((await templates.version(slug, 1)).version, 1)
      assert.deepEqual((await templates.files(slug, 1, { path: '/srv' }).all()).map(({ path }) => path), ['/srv/file']) // prettier-ignore
      assert.ok((await templates.diff(slug, 1, { against: 'base@1' }).all()).some(({ path }) => path === '/srv/file'))
      assert.ok((await person.templates.archive(slug, 1)).archived_at)
      assert.ok((await person.templates.archiveTemplate(slug)).archived_at)
      const other = await templates.build(unique('template'), { dockerfile: 'FROM base\nRUN sleep 600\n' })
      assert.equal((await templates.cancelBuild(other.id)).state, 'canceled')
    },
  },
  {
    fact: 'a draft is opened, captured, tried, published and discarded',
    async run(berth) {
      const { templates } = berth
      const { drafts } = templates
      const slug = unique('draft')
      const draft = await drafts.open(slug, { base: 'base@1' })
      assert.equal(draft.view.purpose, 'template_draft')
      assert.equal((await drafts.get(slug)).workspace_id, draft.id)
      await draft.files.write('/home/user/name', 'first')
      const first = await drafts.capture(slug, { label: 'with a name' })
      assert.equal(first.label, 'with a name')
      await draft.files.write('/home/user/name', 'second')
      const second = await drafts.capture(slug)
      assert.deepEqual((await drafts.states(slug).all()).map(({ id }) => id), [second.id, first.id]) // prettier-ignore
      const tried = await drafts.test(slug, { state_id: first.id })
      assert.equal(await tried.files.readText('/home/user/name'), 'first')
      assert.deepEqual((await drafts.testInstances(slug).all()).map(({ id }) => id), [tried.id]) // prettier-ignore
      const build = await drafts.publish(slug, { state_id: second.id, auto_publish: true })
      assert.equal((await templates.waitForBuild(build.id)).state, 'succeeded')
      const opened = await berth.open(unique('of-draft'), { template: slug })
      assert.equal(await opened.files.readText('/home/user/name'), 'second')
      await opened.delete()
      assert.equal((await drafts.discard(slug)).kind, 'delete')
      assert.deepEqual((await tried.refresh()).ended_reason, 'draft_discarded')
    },
  },
  {
    fact: 'a workspace is saved as a template',
    async run(berth, ws) {
      await ws.files.write('/home/user/kept', 'content')
      const build = await ws.saveAsTemplate(unique('saved'), { auto_publish: true })
      assert.equal((await berth.templates.waitForBuild(build.id)).state, 'succeeded')
    },
  },
  {
    fact: 'languages and packages that recipes may name are told',
    async run(berth) {
      assert.ok((await berth.templates.languages()).some(({ name }) => name === 'node'))
      // The mirror of packages is a setting: a service without one answers an error.
      await berth.templates.packages({ query: 'git' }).catch((error: unknown) => assert.ok(error instanceof BerthError))
    },
  },
]
