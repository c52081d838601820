import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { ListedCommand, ListedTerminal } from '../schemas/cell/lists.ts'
import { TerminalSession } from '../schemas/cell/terminal.ts'
import { Nullable } from '../schemas/common.ts'
import { Flag } from './values.ts'

// Messages about commands and terminals. Their records are the public schemas of contract/schemas/cell.

const environment = Type.Record(Type.String(), Type.String())

const run = {
  session_id: Type.String(),
  fingerprint: Type.String({ description: 'The same id with another fingerprint is operation_id_reused.' }),
  argv: Type.Array(Type.String()),
  cwd: Type.String(),
  user: Type.String(),
  env: environment,
}

export const ExecRequest = Type.Object(
  {
    ...run,
    stdin_base64: Type.Optional(
      Type.String({ description: `${LIMITS.exec.stdin_bytes_max} bytes decoded at most. stdin is then closed, unless stdin_open.` }),
    ),
    stdin_open: Flag('stdin stays open: POST /exec/{id}/stdin sends more.'),
    timeout_ms: Type.Optional(Type.Integer({ minimum: 0, description: '0: none.' })),
    kill_grace_ms: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  { title: 'ExecRequest', description: "One command, with the request's environment already merged." },
)
export type ExecRequest = Static<typeof ExecRequest>

const { cols, rows } = TerminalSession.properties

export const PtySize = Type.Object({ cols, rows }, { title: 'PtySize', description: 'In characters.' })

export const PtyRequest = Type.Object(
  { ...run, ...PtySize.properties },
  { title: 'PtyRequest', description: "A terminal. Without argv it runs the user's login shell." },
)
export type PtyRequest = Static<typeof PtyRequest>

export const PtyInput = Type.Object(
  { data: Type.String({ contentEncoding: 'base64' }) },
  { title: 'PtyInput', description: 'Typed input, FrameDataMax bytes at most.' },
)

const page = {
  max: { maxItems: LIMITS.page.size_max },
  next_cursor: Nullable(
    Type.String({ pattern: `^[0-9a-f-]{1,${LIMITS.page.cursor_characters_max}}$`, description: 'null on the last page.' }),
  ),
}

export const ExecList = Type.Object({ commands: Type.Array(ListedCommand, page.max), next_cursor: page.next_cursor }, { title: 'ExecList' })

export const PtyList = Type.Object({ terminals: Type.Array(ListedTerminal, page.max), next_cursor: page.next_cursor }, { title: 'PtyList' })
