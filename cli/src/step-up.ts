import { readFileSync } from 'node:fs'
import { stdin, stderr } from 'node:process'
import { CliError, type Context, usageError } from './command.ts'
import { readProfiles, writeProfile } from './profile.ts'

/** The service answers with a new session token, because the old one becomes invalid. */
export async function stepUp({ berth, flags, profile, say }: Context): Promise<readonly [string] | undefined> {
  const password = flags['password-stdin'] === true ? passwordOfStdin() : await askForPassword()
  const { session_token } = await berth().api<{ session_token: string }>('POST', '/v1/auth/step-up', { json: { password } })
  const known = readProfiles()[profile]
  if (process.env['BERTH_API_KEY'] || known === undefined) {
    say('The token in BERTH_API_KEY is over. The session goes on under this one:')
    return [session_token]
  }
  say(`The session of profile ${profile} goes on in ${writeProfile(profile, { ...known, api_key: session_token })}`)
  return undefined
}

function passwordOfStdin(): string {
  const password = readFileSync(0, 'utf8').replace(/\r?\n$/, '')
  if (password === '') throw usageError('The password is read from standard input, and there is none')
  return password
}

const [INTERRUPT, END, BACKSPACE] = ['\u0003', '\u0004', '\u007f']
const INTERRUPTED = 130

function askForPassword(): Promise<string> {
  if (!stdin.isTTY) throw usageError('The password is asked for at a terminal', 'berth step-up --password-stdin')
  stderr.write('Password: ')
  stdin.setRawMode(true).setEncoding('utf8').resume()
  let hear: (keys: string) => void = () => undefined
  const typing = new Promise<string>((resolve, reject) => {
    let typed = ''
    hear = (keys) => {
      for (const key of keys) {
        if (key === INTERRUPT || (key === END && typed === ''))
          return reject(new CliError('No password was given', { exit_code: INTERRUPTED }))
        if (key === '\r' || key === '\n' || key === END) return resolve(typed)
        typed = key === BACKSPACE || key === '\b' ? Array.from(typed).slice(0, -1).join('') : typed + key
      }
    }
  })
  stdin.on('data', hear)
  return typing.finally(() => {
    stdin.off('data', hear).setRawMode(false).pause()
    stderr.write('\n')
  })
}
