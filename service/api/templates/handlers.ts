import { answerDraft, createDraft } from './drafts/create.ts'
import { answerDraftInstance, openDraftInstance } from './drafts/instance.ts'
import { answerTestInstance, openTestInstance } from './test-instance.ts'
import { archiveTemplate } from './archive.ts'
import { archiveVersion, publishVersion } from './publish.ts'
import { cancelBuild } from './builds/cancel.ts'
import { captureDraft } from './drafts/capture.ts'
import { compareFiles } from './files/diff.ts'
import { createBuild } from './builds/create.ts'
import { createUpload, getUpload, putPart, removeOneUpload } from './uploads/uploads.ts'
import { discardDraft } from './drafts/discard.ts'
import { getBuild } from './builds/get.ts'
import { getDraft, listDraftStates, listDraftTestInstances } from './drafts/read.ts'
import { getTemplate, getVersion, listAllTemplates, listTemplatesOfOrganization, listVersionsOfTemplate } from './read.ts'
import { listFiles } from './files/list.ts'
import { listLanguages, listPackages } from './packages/lookup.ts'
import { publishDraft } from './drafts/publish.ts'
import { readBuildLog } from './builds/log.ts'
import { saveAsTemplate } from './builds/save-as-template.ts'

export const TEMPLATES_HANDLERS = {
  'templates.list': listAllTemplates,
  'templates.list_of_organization': listTemplatesOfOrganization,
  'templates.get': getTemplate,
  'templates.get_of_organization': getTemplate,
  'template-versions.list': listVersionsOfTemplate,
  'template-versions.list_of_organization': listVersionsOfTemplate,
  'template-versions.get': getVersion,
  'template-versions.get_of_organization': getVersion,
  'template-versions.publish': publishVersion,
  'template-versions.publish_of_organization': publishVersion,
  'template-versions.archive': archiveVersion,
  'template-versions.archive_of_organization': archiveVersion,
  'workspaces.save_as_template': saveAsTemplate,
  'template-builds.create': createBuild,
  'template-builds.create_of_organization': createBuild,
  'template-builds.get': getBuild,
  'template-builds.log': readBuildLog,
  'template-builds.cancel': cancelBuild,
  'test-instances.create': openTestInstance,
  'test-instances.create_of_organization': openTestInstance,
  'drafts.get': getDraft,
  'drafts.get_of_organization': getDraft,
  'drafts.create': createDraft,
  'drafts.create_of_organization': createDraft,
  'drafts.discard': discardDraft,
  'drafts.discard_of_organization': discardDraft,
  'draft-states.list': listDraftStates,
  'draft-states.list_of_organization': listDraftStates,
  'draft-states.create': captureDraft,
  'draft-states.create_of_organization': captureDraft,
  'draft-test-instances.list': listDraftTestInstances,
  'draft-test-instances.list_of_organization': listDraftTestInstances,
  'draft-test-instances.create': openDraftInstance,
  'draft-test-instances.create_of_organization': openDraftInstance,
  'drafts.publish': publishDraft,
  'drafts.publish_of_organization': publishDraft,
  'template-files.list': listFiles,
  'template-files.list_of_organization': listFiles,
  'template-files.diff': compareFiles,
  'template-files.diff_of_organization': compareFiles,
  'templates.archive': archiveTemplate,
  'templates.archive_of_organization': archiveTemplate,
  'template-uploads.create': createUpload,
  'template-uploads.get': getUpload,
  'template-uploads.part': putPart,
  'template-uploads.delete': removeOneUpload,
  'template-packages.list': listPackages,
  'template-languages.list': listLanguages,
}

/** A repeat of these calls is answered from the current state, because their answers contain a token. */
export const TEMPLATES_ANSWERS = {
  'test-instances.create': answerTestInstance,
  'test-instances.create_of_organization': answerTestInstance,
  'drafts.create': answerDraft,
  'drafts.create_of_organization': answerDraft,
  'draft-test-instances.create': answerDraftInstance,
  'draft-test-instances.create_of_organization': answerDraftInstance,
}
