// Parsers of settings. Each accepts a text, or a JSON value of the file, and throws a description of the error.
import { isIP } from 'node:net'

function text(value) {
  if (typeof value !== 'string') throw new Error('must be text')
  return value
}

export function path(value) {
  if (!/^\/[^\0\n]*$/.test(text(value))) throw new Error('must be an absolute path')
  return value === '/' ? value : value.replace(/\/+$/, '')
}

export function registration(value) {
  const list = (Array.isArray(value) ? value : text(value).split(',')).map((each) => text(each).trim().toLowerCase())
  if (list.length === 1 && (list[0] === 'invitation' || list[0] === 'open')) return list[0]
  if (list.some((each) => !/^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(each)))
    throw new Error('must be invitation, open, or domains like example.com, separated by commas')
  return list
}

export function smtpUrl(value) {
  if (!/^(smtps|smtp|smtp\+insecure):\/\/[^/?#\s]+\/?$/.test(text(value)))
    throw new Error('must be like smtps://user:password@mail.example.com:465')
  return value
}

export function stripeKey(value) {
  if (!/^((sk|rk)_[A-Za-z0-9_]+)?$/.test(text(value))) throw new Error('must be a secret or restricted key of Stripe: sk_… or rk_…')
  return value
}

export function stripeWebhookSecret(value) {
  if (!/^(whsec_[A-Za-z0-9+/=_-]+)?$/.test(text(value))) throw new Error('must be the signing secret of an endpoint of Stripe: whsec_…')
  return value
}

export function mailbox(value) {
  if (!/^([^<>@\r\n]+ <[^<>@\s]+@[^<>@\s]+>|[^<>@\s]+@[^<>@\s]+)$/.test(text(value)))
    throw new Error('must be an address, like Berth <berth@example.com>')
  return value
}

export function pathOrNothing(value) {
  return text(value) === '' ? '' : path(value)
}

export function slug(value) {
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/.test(text(value))) throw new Error('must be a name of letters, digits, ".", "_" and "-"')
  return value
}

export function address(value) {
  const [, host, port] = /^\[?([^\]]*)\]?:(\d+)$/.exec(text(value)) ?? []
  if (!host || isIP(host) === 0 || !(Number(port) >= 1 && Number(port) <= 65_535))
    throw new Error('must be an IP address and a port, like 127.0.0.1:8080')
  return { host, port: Number(port) }
}

export function addresses(value) {
  const list = Array.isArray(value)
    ? value
    : text(value)
        .split(',')
        .map((each) => each.trim())
  if (list.some((each) => isIP(each) === 0)) throw new Error('must be IP addresses, separated by commas')
  return list
}

/** Networks in Go's notation. */
export function prefixes(value) {
  const list = Array.isArray(value) ? value : text(value).split(',')
  return list.map((each) => {
    const [ip, bits, ...rest] = text(each).trim().split('/')
    const most = { 4: 32, 6: 128 }[isIP(ip)]
    if (most === undefined || rest.length > 0 || !/^\d{1,3}$/.test(bits ?? String(most)) || Number(bits ?? most) > most)
      throw new Error('must be addresses or networks, separated by commas, like 127.0.0.1 or 10.0.0.0/8')
    return `${ip}/${bits ?? most}`
  })
}

/** The same pattern as in hostd: machine/internal/engine/builds.go. */
const ENGINE = /^[0-9A-Za-z][0-9A-Za-z._+~-]{0,127}$/

export function engines(value) {
  const list = Array.isArray(value)
    ? value
    : text(value)
        .split(',')
        .map((each) => each.trim())
        .filter((each) => each !== '')
  if (list.some((each) => !ENGINE.test(each))) throw new Error("must be versions of engines, separated by commas, or 'others'")
  return list
}

export function network(value) {
  const [, ip, bits] = /^([\d.]+)\/(\d+)$/.exec(text(value)) ?? []
  if (!ip || isIP(ip) !== 4 || Number(bits) < 8 || Number(bits) > 24)
    throw new Error('must be an IPv4 network of /8 to /24, like 10.117.0.0/16')
  return value
}

export function url(value) {
  if (!/^https?:/.test(text(value)) || !URL.canParse(value)) throw new Error('must be an http or https URL')
  return value.replace(/\/+$/, '')
}

/** Origins in the form in which browsers send them. */
export function origins(value) {
  const list = Array.isArray(value) ? value : text(value).split(',')
  const read = list.map((each) => text(each).trim()).filter((each) => each !== '')
  if (read.includes('*')) throw new Error('must name each origin: any page on the internet may not be let in')
  if (read.some((each) => !/^https?:/.test(each) || !URL.canParse(each) || new URL(each).origin !== each))
    throw new Error('must be origins, separated by commas, like https://app.example.com or http://localhost:5173')
  return read
}

export function urlOrNothing(value) {
  return value === '' ? '' : url(value)
}

/** Longest valid host: the name of port 65535 is the longest. */
const PORTS_HOST_MAX = 253 - '65535-'.length - 26 - '.'.length

export function portsUrl(value) {
  const read = url(value)
  const { origin, hostname } = new URL(read)
  if (origin !== read || isIP(hostname) !== 0 || hostname.startsWith('[') || !/^[a-z0-9.-]+$/.test(hostname))
    throw new Error('must be a scheme, a host name in lower case and maybe a port, like https://ports.example.com')
  if (hostname.length > PORTS_HOST_MAX) throw new Error('has a host name that is too long')
  return read
}

export function databaseUrl(value) {
  if (value !== '' && !/^postgres(ql)?:\/\//.test(text(value))) throw new Error('must be a postgres:// URL')
  return value
}

export function wholeNumber(min, max) {
  return (value) => {
    const read = number(min, max)(value)
    if (!Number.isInteger(read)) throw new Error('must be a whole number')
    return read
  }
}

export function number(min, max) {
  return (value) => {
    const read = typeof value === 'number' ? value : /^\d+(\.\d+)?$/.test(text(value)) ? Number(value) : Number.NaN
    if (!(read >= min && read <= max)) throw new Error(`must be a number from ${min} to ${max}`)
    return read
  }
}

export function oneOf(...choices) {
  return (value) => {
    if (!choices.includes(value)) throw new Error(`must be one of ${choices.join(', ')}`)
    return value
  }
}

export function failpoints(value) {
  if (!/^[A-Za-z0-9_.:,@/-]*$/.test(text(value))) throw new Error('must be names of failpoints and what happens there')
  return value
}
