import Type from 'typebox'
import { ANYONE } from '../../access.ts'
import { appRoute } from '../../route.ts'

export const openapiGet = appRoute({
  id: 'openapi.get',
  method: 'GET',
  path: '/v1/openapi.json',
  summary: 'This description',
  access: ANYONE,
  answers: {
    200: {
      schema: Type.Object({}, { additionalProperties: true }),
      headers: { 'Cache-Control': 'public, max-age=300' },
      description: 'OpenAPI 3.1.0',
    },
  },
  errors: {},
})
