export class TreeFull extends Error {
  readonly what: 'bytes' | 'entries' | 'written'

  constructor(what: 'bytes' | 'entries' | 'written') {
    super(what === 'written' ? 'Too much was written to the tree within the hour' : `The tree would have too many ${what}`)
    this.what = what
  }
}

const MESSAGES: Record<TreeFull['what'], string> = {
  bytes: "The workspace's files would be larger than its disk",
  entries: 'The workspace would have too many files',
  written:
    'Earlier contents are kept for an hour, and within the last one more was written than they may take: it goes on when they are gone',
}

export function fullMessage({ what }: TreeFull): string {
  return MESSAGES[what]
}
