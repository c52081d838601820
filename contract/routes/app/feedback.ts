import { readers } from '../../access.ts'
import { LIMITS } from '../../limits.ts'
import { appRoute } from '../../route.ts'
import { Feedback, FeedbackCreate } from '../../schemas/feedback.ts'

export const feedbackCreate = appRoute({
  id: 'feedback.create',
  method: 'POST',
  path: '/v1/feedback',
  summary: 'Say what is wrong, missing or good',
  access: readers('self'),
  body: FeedbackCreate,
  body_bytes_max: LIMITS.feedback.body_bytes_max,
  answers: { 201: { schema: Feedback, description: 'It is kept' } },
  errors: {},
})
