import {
  draftsCreate,
  draftsCreateOfOrganization,
  draftsDiscard,
  draftsDiscardOfOrganization,
  draftsGet,
  draftsGetOfOrganization,
  draftsPublish,
  draftsPublishOfOrganization,
  draftStatesCreate,
  draftStatesCreateOfOrganization,
  draftStatesList,
  draftStatesListOfOrganization,
  draftTestInstancesCreate,
  draftTestInstancesCreateOfOrganization,
  draftTestInstancesList,
  draftTestInstancesListOfOrganization,
} from '../../../../contract/routes/app/template-drafts.ts'
import { bind, type Bound } from '../../../http/call.ts'
import type { ApiDeps } from '../../deps.ts'
import type { WaitPermit } from '../../calls/held-places.ts'
import { captureDraft } from './capture.ts'
import { answerDraft, createDraft } from './create.ts'
import { discardDraft } from './discard.ts'
import { answerDraftInstance, openDraftInstance } from './instance.ts'
import { publishDraft } from './publish.ts'
import { getDraft, listDraftStates, listDraftTestInstances } from './read.ts'

export const DRAFT_BOUND: readonly Bound<ApiDeps, WaitPermit>[] = [
  bind(draftsGet, getDraft),
  bind(draftsGetOfOrganization, getDraft),
  bind(draftsCreate, createDraft),
  bind(draftsCreateOfOrganization, createDraft),
  bind(draftsDiscard, discardDraft),
  bind(draftsDiscardOfOrganization, discardDraft),
  bind(draftStatesList, listDraftStates),
  bind(draftStatesListOfOrganization, listDraftStates),
  bind(draftStatesCreate, captureDraft),
  bind(draftStatesCreateOfOrganization, captureDraft),
  bind(draftTestInstancesList, listDraftTestInstances),
  bind(draftTestInstancesListOfOrganization, listDraftTestInstances),
  bind(draftTestInstancesCreate, openDraftInstance),
  bind(draftTestInstancesCreateOfOrganization, openDraftInstance),
  bind(draftsPublish, publishDraft),
  bind(draftsPublishOfOrganization, publishDraft),
]

/** Handlers that repeat an answer with a token. */
export const DRAFT_ANSWERS = {
  [draftsCreate.id]: answerDraft,
  [draftsCreateOfOrganization.id]: answerDraft,
  [draftTestInstancesCreate.id]: answerDraftInstance,
  [draftTestInstancesCreateOfOrganization.id]: answerDraftInstance,
} as const
