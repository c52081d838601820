import { LIMITS } from '../../../../contract/limits.ts'
import type { AlertSubject } from '../../../../contract/schemas/spend.ts'
import type { MailKind } from '../../../../contract/states/mail.ts'

export interface MailMessage {
  to: string
  subject: string
  text: string
}

export interface LetterFacts {
  base_url: string
  token?: string
  organization?: string
  role?: string
  alert?: { subject: AlertSubject; threshold_percent: number; resets_at: Date }
}

interface Words {
  subject: string
  lines: string[]
  /** Page of the link, and the route that accepts its token. */
  link?: { page: string; route: string; until: string }
}

const { verify_hours, reset_minutes } = LIMITS.sign_in
const NOT_YOU = 'If this was not you, nobody needs to do anything: without the link nothing happens.'
const TAKE_CARE = 'If this was not you, ask for another password at once, and end all sessions.'

/** Names of people and organizations appear only in the text, never in the subject. */
export function letterOf(kind: MailKind, to: string, facts: LetterFacts): MailMessage {
  const { subject, lines, link } = WORDS[kind](facts)
  const linked = link === undefined ? [] : linkLines(link, facts)
  return { to, subject, text: `${[...lines, ...linked].join('\n\n')}\n` }
}

/** The token follows `#` in the URL: browsers never send that part to a server. */
function linkLines({ page, route, until }: NonNullable<Words['link']>, { base_url, token }: LetterFacts): string[] {
  if (token === undefined) throw new Error('a letter with a link was made without a token')
  return [`${base_url}/${page}#token=${token}`, `A program posts the token to ${base_url}${route} as {"token": "…"}. ${until}`]
}

const ALERTED: Record<AlertSubject, string> = {
  cpu_hours: 'the CPU-hours that its plan and its credits include',
  ram_gib_hours: 'the GiB-hours of memory that its plan and its credits include',
  spend_cap: 'its spend cap',
}

function alertLines({ base_url, organization = '', alert }: LetterFacts): string[] {
  if (alert === undefined) throw new Error('a letter of an alert was made without one')
  const { subject, threshold_percent, resets_at } = alert
  return [
    `${organization} at ${base_url} has used ${threshold_percent} percent of ${ALERTED[subject]} in this billing period.`,
    `When all of it is used, what runs is suspended with everything kept, and nothing starts until ${resets_at.toISOString()}, unless the plan, overage or its cap let it go on.`,
  ]
}

const WORDS: Record<MailKind, (facts: LetterFacts) => Words> = {
  verify_email: ({ base_url }) => ({
    subject: 'Verify your address for Berth',
    lines: [`Somebody registered this address at ${base_url}. Verify it by this link:`],
    link: { page: 'verify-email', route: '/v1/auth/verify-email', until: `The link is good for ${verify_hours} hours. ${NOT_YOU}` },
  }),
  reset_password: ({ base_url }) => ({
    subject: 'Another password for Berth',
    lines: [`Somebody asked for another password of your account at ${base_url}. Set it by this link:`],
    link: {
      page: 'reset-password',
      route: '/v1/auth/password/reset/confirm (with "new_password")',
      until: `The link is good for ${reset_minutes} minutes. ${NOT_YOU}`,
    },
  }),
  change_email: ({ base_url }) => ({
    subject: 'Your new address for Berth',
    lines: [`Somebody wants to sign in at ${base_url} with this address. Make it the address of the account by this link:`],
    link: {
      page: 'change-email',
      route: '/v1/auth/email/change/confirm (with the session of the account)',
      until: `The link is good for ${verify_hours} hours. ${NOT_YOU}`,
    },
  }),
  invitation: ({ base_url, organization = '', role = '' }) => ({
    subject: 'You are invited to an organization on Berth',
    lines: [`You are invited to ${organization} at ${base_url}, as ${role}. Accept by this link, signed in with this address:`],
    link: {
      page: 'invitation',
      route: '/v1/invitations/accept',
      until: `Who has no account registers with it first, as "invitation_token". The link is good for ${LIMITS.organization.invitation_days} days.`,
    },
  }),
  already_registered: ({ base_url }) => ({
    subject: 'You have an account at Berth',
    lines: [
      `Somebody registered this address at ${base_url}, which has an account already. Nothing was changed.`,
      'If you have forgotten its password, ask for another one.',
    ],
  }),
  password_changed: ({ base_url }) => ({
    subject: 'Your password for Berth was changed',
    lines: [`The password of your account at ${base_url} was changed.`, TAKE_CARE],
  }),
  email_changed: ({ base_url }) => ({
    subject: 'Your address for Berth was changed',
    lines: [`Your account at ${base_url} has another address. Mail goes there from now on.`, 'If this was not you, tell whoever runs it.'],
  }),
  account_deleted: ({ base_url }) => ({
    subject: 'Your account for Berth is gone',
    lines: [`Your account at ${base_url} was deleted, with all that it signed in with.`, 'If this was not you, tell whoever runs it.'],
  }),
  mfa_enabled: ({ base_url }) => ({
    subject: 'Two factors for Berth',
    lines: [`Your account at ${base_url} asks for a second factor from now on.`, TAKE_CARE],
  }),
  mfa_disabled: ({ base_url }) => ({
    subject: 'One factor for Berth',
    lines: [`Your account at ${base_url} asks for no second factor any more.`, TAKE_CARE],
  }),
  spend_alert: (facts) => ({ subject: 'What your organization used on Berth', lines: alertLines(facts) }),
}
