// `npm run templates [-- settings] [NAME…]`: builds and publishes missing platform templates while the service runs. May be repeated.
import { buildAndPublish } from './setup/late-templates.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { SettingsError } from './setup/settings.mjs'
import { templateNames } from './setup/template.mjs'

await report(async () => {
  const argv = process.argv.slice(2)
  const { rest } = loadSettings(argv)
  const known = await templateNames()
  const unknown = rest.find((name) => !known.includes(name))
  if (unknown !== undefined) throw new SettingsError(`There is no template ${unknown}: there are ${known.join(', ')}.`)
  await buildAndPublish(rest.length === 0 ? known : rest, argv.slice(0, argv.length - rest.length))
})
