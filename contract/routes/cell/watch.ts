import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { cellRoute } from '../../route.ts'
import { WatchEvent, WatchQuery } from '../../schemas/cell/watch.ts'
import { Uuid } from '../../schemas/common.ts'

export const filesWatch = cellRoute({
  id: 'files.watch',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files/watch',
  summary: 'What changes in a directory, as it changes, from an offset on; Server-Sent Events with `Accept: text/event-stream`',
  access: toolToken('files'),
  modes: ['processful'],
  machine: 'asked',
  streams: true,
  params: Type.Object({ workspace_id: Uuid() }),
  query: WatchQuery,
  answers: {
    200: {
      content: { 'application/x-ndjson': WatchEvent, 'text/event-stream': WatchEvent },
      description: 'One event a line: `start` first, `end` or `error` last',
    },
  },
  errors: {
    not_found: ['path_not_found'],
    validation_failed: ['invalid_path'],
    conflict: ['not_permitted', 'not_a_directory', 'guest_feature_unavailable'],
    service_unavailable: ['draining', 'too_many_streams'],
  },
})
