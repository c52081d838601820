import { isIP } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'

/** Values of `details.issues[].reason`. */
export type HostReason = 'invalid_host' | 'ip_literal' | 'local_name' | 'invalid_wildcard'
export type NormalHost = { host: string } | { reason: HostReason; message: string }

const NAME_CHARACTERS_MAX = 253
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/
/** Refused as the last label, because URL parsers read such a name as an IPv4 address. */
const NUMBER = /^(?:[0-9]+|0x[0-9a-f]*)$/
/** IDNA conversion would parse `/`, `%` or a tab as a URL's, so these are refused before. The conversion checks the rest. */
const NO_HOST_CHARACTER = /[^A-Za-z0-9.\-\u0080-\u{10ffff}]/u
/** Names of local networks: RFC 6761, RFC 6762, RFC 8375, ICANN's `.internal`. */
const LOCAL = ['localhost', 'localdomain', 'localdomain4', 'localdomain6', 'local', 'internal', 'home.arpa']

/** IDNA (UTS 46), lower case, no trailing dot. Checks run on the converted name. */
export function normalHost(given: string): NormalHost {
  const [, wildcard = '', rest = ''] = /^(\*\.)?([^]*)$/.exec(given) ?? []
  if (rest.includes('*')) return refused('invalid_wildcard', '* may only stand for the whole first label, as in *.example.com')
  const bare = rest.replace(/^\[([^\]]*)\]$/, '$1')
  if (isIP(bare) !== 0) return refused('ip_literal', IP_MESSAGE)
  if (rest === '' || NO_HOST_CHARACTER.test(rest)) return refused('invalid_host', 'is not a host name')
  const ascii = domainToASCII(rest).replace(/\.$/, '')
  if (isIP(ascii) !== 0) return refused('ip_literal', IP_MESSAGE)
  const host = `${wildcard}${ascii}`
  if (LOCAL.some((local) => ascii === local || ascii.endsWith(`.${local}`)))
    return refused('local_name', 'means the machine itself or its surroundings')
  const labels = ascii.split('.')
  const last = labels.at(-1) ?? ''
  const is_name = labels.every((label) => LABEL.test(label)) && !NUMBER.test(last) && host.length <= NAME_CHARACTERS_MAX
  if (!is_name || !isTrueIdna(ascii)) return refused('invalid_host', 'is not a host name')
  if (labels.length < 2) {
    if (wildcard === '') return refused('invalid_host', 'has only one label: it must be fully qualified')
    return refused('invalid_wildcard', 'covers everything below a top level: name at least two labels after *.')
  }
  return { host }
}

const IP_MESSAGE = 'is an address: public networks go into cidrs'

/** The conversion does not check ASCII names, so encoded labels are checked here. */
function isTrueIdna(ascii: string): boolean {
  const encoded = ascii.split('.').filter((label) => label.startsWith('xn--'))
  return encoded.every((label) => {
    const text = domainToUnicode(label)
    return text !== '' && text !== label && domainToASCII(text) === label
  })
}

function refused(reason: HostReason, message: string): NormalHost {
  return { reason, message }
}
