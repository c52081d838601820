import { fail, type Failure } from '../../../lib/fail.ts'

const MESSAGES = {
  ports_per_workspace: 'The workspace has as many exposed ports as it may have',
  tokens_per_port: 'The port has as many tokens as it may have: some must expire first',
  links_per_port: 'The port has as many links as it may have: some must expire first',
}

export function tooMany(limit: keyof typeof MESSAGES, limit_value: number, current: number): Failure {
  return fail('quota_exceeded', null, MESSAGES[limit], { details: { limit, limit_value, current } })
}
