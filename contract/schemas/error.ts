import Type, { type Static } from 'typebox'

/** App, "Error envelope": the body of every answer that is not 2xx, on both surfaces. */
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
            issues: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
          },
          { additionalProperties: true, description: 'Details of the code, most often `reason`' },
        ),
      ),
    }),
  },
  { title: 'ErrorEnvelope' },
)
export type ErrorEnvelope = Static<typeof ErrorEnvelope>
