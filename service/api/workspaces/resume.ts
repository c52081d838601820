import type { workspacesResume } from '../../../contract/routes/app/lifecycle.ts'
import { admitStart } from '../../core/money/admission/store.ts'
import { beginOperation } from '../../core/workspaces/operations/begin.ts'
import type { Call, Reply } from '../../http/call.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { requestedTools } from '../calls/scope.ts'
import { change, type Changed } from '../calls/idempotency/change.ts'
import { workspaceCommandResult } from './answer-operation.ts'
import { answerStart } from './answer-start.ts'
import { lockForChange } from './find.ts'
import { allowed, joined } from './refusals.ts'
import { writeSuspendRequest } from './write-store.ts'
import type { AnswerDeps } from './deps.ts'
import type { CallDeps } from '../calls/deps.ts'

type ResumeCall = Call<typeof workspacesResume>

export async function resumeWorkspace(call: ResumeCall, deps: AnswerDeps & Pick<CallDeps, 'turns' | 'change_rate'>): Promise<Reply> {
  await failpoint('resume.R1')
  const outcome = await change(deps, call, async (tx) => {
    const row = await lockForChange(tx, call)
    requestedTools(call.who, row.organization_id, call.body.tools)
    const decision = allowed(row, call.wait_seconds > 0 ? 'resume_and_wait' : 'resume')
    switch (decision.kind) {
      case 'proceed':
        // Every resume cancels a pending request to suspend (App, "Suspend when idle").
        if (row.suspend_requested_at !== null) await writeSuspendRequest(tx, row.id, null, call.now)
        return workspaceCommandResult(row, { status: 200, operation_id: null, changed: row.suspend_requested_at !== null })
      case 'join':
        return workspaceCommandResult(row, { status: 202, operation_id: joined(row), changed: false })
      case 'operate': {
        await admitStart(tx, row.organization_id, row.id)
        const operation_id = await beginOperation(deps, tx, row, decision, { cell_id: row.cell_id, now: call.now })
        return workspaceCommandResult(row, { status: 202, operation_id, changed: true })
      }
    }
  })
  return answerResume(call, deps, outcome)
}

export function answerResume(call: ResumeCall, deps: AnswerDeps, outcome: Changed): Promise<Reply> {
  return answerStart(call, deps, outcome, undefined, ({ operation, workspace }) => ({ operation, workspace }))
}
