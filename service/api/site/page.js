// The token follows `#` in the URL: browsers never send that part to a server.
const token = new URLSearchParams(location.hash.slice(1)).get('token')
const element = (id) => document.getElementById(id)
const say = (text) => void (element('message').textContent = text)
const shown = (id, is_shown = true) => void (element(id).hidden = !is_shown)
// Removes the token from the browser's history, which other people may read.
if (token !== null) history.replaceState(null, '', location.pathname)

const PAGES = {
  '/': () => {
    shown('page-home')
    element('address').textContent = `${location.origin}/v1`
  },
  '/verify-email': () => {
    shown('page-verify')
    onSubmit('verify', async () => {
      await post('/v1/auth/verify-email', { token })
      done('verify', 'The address is verified. You can sign in now.')
    })
  },
  '/reset-password': () => {
    shown('page-reset')
    onSubmit('reset', async ({ new_password }) => {
      await post('/v1/auth/password/reset/confirm', { token, new_password })
      done('reset', 'The password is set. All sessions of before have ended.')
    })
  },
  '/invitation': () => {
    shown('page-invitation')
    signIn(accept)
    onSubmit('register', async ({ email, password, display_name }) => {
      const named = display_name === '' ? {} : { display_name }
      await post('/v1/auth/register', { email, password, ...named, invitation_token: token })
      const { session_token, mfa_required } = await post('/v1/auth/login', { email, password })
      if (!mfa_required) await accept(session_token)
    })
  },
  '/change-email': () => {
    shown('page-email')
    signIn(async (session_token) => {
      await post('/v1/auth/email/change/confirm', { token }, session_token)
      done('sign-in', 'The account has the new address.')
    })
  },
}

async function accept(session_token) {
  // The token is invalid if the registration has already accepted the invitation.
  const joined = await post('/v1/invitations/accept', { token }, session_token).catch((refusal) => {
    if (refusal.code !== 'token_invalid') throw refusal
    return get('/v1/me', session_token).then(({ memberships }) => {
      const [first] = memberships
      if (first === undefined) throw refusal
      return { name: first.organization_name, role: first.role }
    })
  })
  shown('sign-in', false)
  shown('second-factor', false)
  done('register', `You are in ${joined.name} as ${joined.role}. Sign in by any client with your address and password.`)
}

function signIn(then) {
  shown('sign-in')
  onSubmit('sign-in', async ({ email, password }) => {
    const signed_in = await post('/v1/auth/login', { email, password })
    if (!signed_in.mfa_required) return then(signed_in.session_token)
    shown('sign-in', false)
    shown('second-factor')
    onSubmit('second-factor', async ({ code }) => {
      const given = /^\d{6}$/.test(code) ? { code } : { recovery_code: code }
      const { session_token } = await post('/v1/auth/mfa/challenge', given, signed_in.session_token)
      await then(session_token)
    })
  })
}

function onSubmit(id, work) {
  element(id).addEventListener('submit', (event) => {
    event.preventDefault()
    const form = event.target
    const button = form.querySelector('button')
    button.disabled = true
    say('')
    work(Object.fromEntries(new FormData(form)))
      .catch((refusal) => say(refusal.message))
      .finally(() => (button.disabled = false))
  })
}

function done(id, text) {
  shown(id, false)
  say(text)
}

const get = (path, session_token) => ask(path, { headers: bearer(session_token) })
const post = (path, json, session_token) =>
  ask(path, { method: 'POST', headers: { 'content-type': 'application/json', ...bearer(session_token) }, body: JSON.stringify(json) })
const bearer = (session_token) => (session_token === undefined ? {} : { authorization: `Bearer ${session_token}` })

async function ask(path, request) {
  const answer = await fetch(path, { ...request, credentials: 'omit' })
  const body = answer.status === 204 ? {} : await answer.json()
  if (answer.ok) return body
  const { code, message, details = {} } = body.error
  const issues = (details.issues ?? []).map((issue) => `${issue.path} ${issue.message}`)
  throw Object.assign(new Error([message, ...issues].join('. ')), { code })
}

const page = PAGES[location.pathname] ?? PAGES['/']
if (token === null && page !== PAGES['/']) say('This link is not whole: open it from the mail again.')
else page()
