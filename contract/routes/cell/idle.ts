import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { cellRoute } from '../../route.ts'
import { IdleRecord, Keepalive, KeepaliveAnswer, WakeHint } from '../../schemas/cell/idle.ts'
import { Uuid } from '../../schemas/common.ts'

const params = Type.Object({ workspace_id: Uuid() })

export const keepalive = cellRoute({
  id: 'idle.keepalive',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/keepalive',
  summary: 'Keep the workspace from idle suspend for so many seconds; 0 ends it',
  access: toolToken('any'),
  modes: ['processful'],
  machine: 'woken',
  params,
  body: Keepalive,
  answers: { 200: { schema: KeepaliveAnswer, description: 'Until when' } },
  errors: {},
})

export const wakeHint = cellRoute({
  id: 'idle.wake-hint',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/wake-hint',
  summary: 'A tool call is about to come',
  access: toolToken('any'),
  params,
  answers: { 202: { schema: WakeHint, description: 'Where the machine is' } },
  errors: {},
})

export const idleGet = cellRoute({
  id: 'idle.get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/idle',
  summary: 'How idle the workspace is, and when it would be suspended for it',
  access: toolToken('any'),
  modes: ['processful'],
  params,
  answers: { 200: { schema: IdleRecord, description: 'The idle record' } },
  errors: {},
})
