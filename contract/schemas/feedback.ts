import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { FreeText, strict, Text, Timestamp, Uuid, Enum } from './common.ts'

const { message_characters_max, context_characters_max } = LIMITS.feedback
export const FEEDBACK_CATEGORIES = ['bug', 'confusing', 'missing', 'idea', 'praise', 'other'] as const
export type FeedbackCategory = (typeof FEEDBACK_CATEGORIES)[number]

const Said = (description: string) => Type.Optional(Text({ minLength: 1, maxLength: context_characters_max, description }))

export const FeedbackContext = Type.Object(
  {
    agent: Said('Which agent, by its label'),
    workspace: Said('Its key or id'),
    request_id: Said('Of the answer that it is about'),
    error_code: Said('That was answered'),
    command: Said('That was run'),
    client: Said('The package and its version'),
  },
  { ...strict, title: 'FeedbackContext' },
)

export const FeedbackCreate = Type.Object(
  {
    message: FreeText({ minLength: 1, maxLength: message_characters_max }),
    category: Type.Optional(Enum(FEEDBACK_CATEGORIES, { description: 'Absent: other' })),
    context: Type.Optional(FeedbackContext),
  },
  { ...strict, title: 'FeedbackCreate', description: 'What is shaped like a key, a token or a private key is taken out before it is kept' },
)
export type FeedbackCreate = Static<typeof FeedbackCreate>

export const Feedback = Type.Object(
  {
    id: Uuid('Of the first one, where it is a duplicate'),
    received_at: Timestamp(),
    duplicate: Type.Boolean({ description: 'The same message came from the same caller within 24 hours' }),
  },
  { title: 'Feedback' },
)
export type Feedback = Static<typeof Feedback>
