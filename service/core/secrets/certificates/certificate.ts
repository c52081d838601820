import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto'

/** A certificate authority. The key is PKCS #8, DER. */
export interface Authority {
  /** PEM */
  certificate: string
  private_key: Buffer
}

const DAY_MS = 86_400_000
/** Validity begins this many days ago, because a guest's clock may be behind. */
const BEFORE_DAYS = 30
const YEARS = 30
/** Validity of host certificates. Some clients do not trust a longer one. */
const SERVER_DAYS = 397
const SERIAL_BYTES = 16
const PEM_COLUMNS = 64

/** Creates an authority that may sign only host certificates. */
export function makeAuthority(name: string, now: Date): Authority {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const until = new Date(now)
  until.setUTCFullYear(now.getUTCFullYear() + YEARS)
  const extensions = [basicConstraints(), keyUsage(SIGNS_CERTIFICATES), keyIdentifier()]
  const certificate = certificateOf({ subject: name, issuer: name, key: privateKey, signer: privateKey, now, until, extensions })
  return { certificate: pem(certificate), private_key: privateKey.export({ type: 'pkcs8', format: 'der' }) }
}

export function makeServerCertificate(
  { certificate, private_key }: Authority,
  names: readonly [string, ...string[]],
  now: Date,
): Authority {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issuer = new X509Certificate(certificate).subject.replace(/^CN=/, '')
  const signer = createPrivateKey({ key: private_key, format: 'der', type: 'pkcs8' })
  const until = new Date(now.getTime() + SERVER_DAYS * DAY_MS)
  const extensions = [keyUsage(SIGNS_CONTENT), serverUse(), alternativeNames(names)]
  const made = certificateOf({ subject: names[0], issuer, key: privateKey, signer, now, until, extensions })
  return { certificate: pem(made), private_key: privateKey.export({ type: 'pkcs8', format: 'der' }) }
}

interface Content {
  subject: string
  issuer: string
  key: KeyObject
  signer: KeyObject
  now: Date
  until: Date
  extensions: readonly Buffer[]
}

const nameOf = (common: string) => sequence(set(sequence(oid('2.5.4.3'), der(0x0c, Buffer.from(common)))))

/** See RFC 5280, 4.1, for this structure. */
function certificateOf({ subject, issuer, key, signer, now, until, extensions }: Content): Buffer {
  const algorithm = sequence(oid('1.2.840.10045.4.3.2')) // ecdsa-with-SHA256
  const serial = randomBytes(SERIAL_BYTES)
  serial.writeUInt8((serial.readUInt8(0) & 0x3f) | 0x40, 0) // positive, and never shortened
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))), // version 3
    der(0x02, serial),
    algorithm,
    nameOf(issuer),
    sequence(time(new Date(now.getTime() - BEFORE_DAYS * DAY_MS)), time(until)),
    nameOf(subject),
    createPublicKey(key).export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...extensions)),
  )
  return sequence(content, algorithm, bits(sign('sha256', content, signer)))
}

function basicConstraints(): Buffer {
  const value = sequence(der(0x01, Buffer.from([0xff])), der(0x02, Buffer.from([0]))) // CA, path length 0
  return sequence(oid('2.5.29.19'), der(0x01, Buffer.from([0xff])), der(0x04, value))
}

const SIGNS_CERTIFICATES = Buffer.from([2, 0x04]) // keyCertSign
const SIGNS_CONTENT = Buffer.from([7, 0x80]) // digitalSignature

function keyUsage(use: Buffer): Buffer {
  return sequence(oid('2.5.29.15'), der(0x01, Buffer.from([0xff])), der(0x04, der(0x03, use)))
}

function serverUse(): Buffer {
  return sequence(oid('2.5.29.37'), der(0x04, sequence(oid('1.3.6.1.5.5.7.3.1'))))
}

function alternativeNames(names: readonly string[]): Buffer {
  return sequence(oid('2.5.29.17'), der(0x04, sequence(...names.map((name) => der(0x82, Buffer.from(name))))))
}

function keyIdentifier(): Buffer {
  return sequence(oid('2.5.29.14'), der(0x04, der(0x04, randomBytes(20))))
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const length: number[] = []
  for (let rest = content.length; rest > 0; rest >>= 8) length.unshift(rest & 0xff)
  const header = content.length < 0x80 ? [content.length] : [0x80 | length.length, ...length]
  return Buffer.concat([Buffer.from([tag, ...header]), content])
}

const sequence = (...parts: Buffer[]) => der(0x30, ...parts)
const set = (...parts: Buffer[]) => der(0x31, ...parts)
const bits = (content: Buffer) => der(0x03, Buffer.from([0]), content)

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const septets = [arc & 0x7f]
    for (let left = arc >> 7; left > 0; left >>= 7) septets.unshift((left & 0x7f) | 0x80)
    bytes.push(...septets)
  }
  return der(0x06, Buffer.from(bytes))
}

/** UTCTime until 2049, GeneralizedTime after it (RFC 5280, 4.1.2.5). */
function time(at: Date): Buffer {
  const text = at.toISOString().replaceAll(/[-:T]|\.\d{3}/g, '')
  return at.getUTCFullYear() < 2050 ? der(0x17, Buffer.from(text.slice(2))) : der(0x18, Buffer.from(text))
}

function pem(certificate: Buffer): string {
  const lines = certificate.toString('base64').match(new RegExp(`.{1,${PEM_COLUMNS}}`, 'g')) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}
