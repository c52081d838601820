import Type, { type Static } from 'typebox'

export const Issue = Type.Object(
  {
    path: Type.String({ description: 'Of a body: names and positions joined by dots. Else the name of the parameter or header' }),
    message: Type.String(),
    reason: Type.Optional(Type.String({ description: 'A word for it, for programs. Not every route has one' })),
    nearest: Type.Optional(Type.String({ description: 'Of a name that is not known: the known one that is most like it' })),
  },
  { title: 'Issue' },
)
export type Issue = Static<typeof Issue>

/** See the specification (App, "Error envelope"). */
export const ErrorEnvelope = Type.Object(
  {
    error: Type.Object({
      code: Type.String({ description: 'One of a closed set of snake_case codes' }),
      message: Type.String({ description: 'A sentence for people; never branch on it' }),
      request_id: Type.String({ description: 'The value of the X-Request-Id header of this answer' }),
      retryable: Type.Boolean({ description: 'Whether the same request may succeed later' }),
      operation_id: Type.Optional(Type.String({ format: 'uuid', description: 'The lifecycle operation that caused the error' })),
      details: Type.Optional(
        Type.Object(
          {
            reason: Type.Optional(Type.String()),
            issues: Type.Optional(Type.Array(Issue)),
          },
          { additionalProperties: true, description: 'Details of the code, most often `reason`' },
        ),
      ),
    }),
  },
  { title: 'ErrorEnvelope' },
)
export type ErrorEnvelope = Static<typeof ErrorEnvelope>
