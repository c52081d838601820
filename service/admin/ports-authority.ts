import { createPrivateKey } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeAuthority, makeServerCertificate, type Authority } from '../core/secrets/certificates/certificate.ts'
import { AdminError, type Output, words } from './command.ts'

const AUTHORITY = { certificate: 'authority.pem', key: 'authority-key.pem' }
const SERVER = { certificate: 'certificate.pem', key: 'key.pem' }

/** For tests and laptops whose visitors install the authority's certificate themselves. A second run uses the same authority. */
export function makePortsAuthority(argv: string[], ports_url: string, output: Output, now: Date): number {
  const { FOLDER } = words(argv, 'FOLDER')
  const folder = path.resolve(FOLDER)
  const { hostname } = new URL(ports_url)
  mkdirSync(folder, { recursive: true })
  const authority = authorityIn(folder, now)
  write(folder, SERVER, makeServerCertificate(authority, [`*.${hostname}`, hostname], now))
  output.line(`ports_certificate=${path.join(folder, SERVER.certificate)}`)
  output.line(`ports_key=${path.join(folder, SERVER.key)}`)
  output.note(`These are for *.${hostname}: set both, make the key readable for the user berth-ports, and let ports_url begin with https.`)
  output.note(`Whoever visits has to trust ${path.join(folder, AUTHORITY.certificate)}. Who has ${AUTHORITY.key} can speak for any host to them: keep it to yourself.`) // prettier-ignore
  return 0
}

function authorityIn(folder: string, now: Date): Authority {
  const [certificate, key] = [path.join(folder, AUTHORITY.certificate), path.join(folder, AUTHORITY.key)]
  if (!existsSync(certificate) && !existsSync(key)) {
    const made = makeAuthority('Berth ports', now)
    write(folder, AUTHORITY, made)
    return made
  }
  try {
    const private_key = createPrivateKey(readFileSync(key)).export({ type: 'pkcs8', format: 'der' })
    return { certificate: readFileSync(certificate, 'utf8'), private_key }
  } catch (cause) {
    throw new AdminError(`${certificate} and ${key} are not an authority: take them away, and another one is made`, { cause })
  }
}

function write(folder: string, names: { certificate: string; key: string }, { certificate, private_key }: Authority): void {
  const pem = createPrivateKey({ key: private_key, format: 'der', type: 'pkcs8' }).export({ type: 'pkcs8', format: 'pem' })
  const key = path.join(folder, names.key)
  writeFileSync(key, pem, { mode: 0o600 })
  chmodSync(key, 0o600) // writing does not change the mode of an existing file
  writeFileSync(path.join(folder, names.certificate), certificate)
}
