import { SettingsError } from './settings.mjs'

export async function report(command) {
  // EPIPE: the reader has closed the pipe, as `| head` does. This is no error.
  process.stdout.on('error', (error) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  try {
    const code = await command()
    if (typeof code === 'number') process.exitCode = code
  } catch (error) {
    const known =
      error instanceof SettingsError || error.cause !== undefined || !(error instanceof TypeError || error instanceof ReferenceError)
    process.stderr.write(`${known ? error.message : error.stack}\n`)
    process.exitCode = error instanceof SettingsError ? 2 : 1
  }
}
