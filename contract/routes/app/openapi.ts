import Type from 'typebox'
import { appRoute } from '../../route.ts'

export const openapiGet = appRoute({
  id: 'openapi.get',
  method: 'GET',
  path: '/v1/openapi.json',
  summary: 'This description',
  auth: 'none',
  answers: { 200: { schema: Type.Object({}, { additionalProperties: true }), description: 'OpenAPI 3.1.0' } },
  errors: {},
})
