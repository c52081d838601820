import { serviceOrigin } from '../../../core/changes/audit.ts'
import { mutate } from '../../../core/changes/mutate.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { PAYER_ROLES } from '../../../../contract/access.ts'
import type { Db } from '../../../db/database.ts'
import type { Ids } from '../../../lib/ids.ts'
import { findWaitingAlerts, listRecipients, takeAlerts } from './alert-store.ts'

const ORGANIZATIONS_MAX = 100 // in one pass

/** Writes the mail and marks the alerts in one transaction, so each alert is sent exactly once. @returns the number of mails. */
export async function mailAlerts(db: Db, ids: Ids, now: Date): Promise<number> {
  let written = 0
  for (const organization_id of await findWaitingAlerts(db, ORGANIZATIONS_MAX)) {
    const mails = await mutate(
      db,
      serviceOrigin('api', { ids, now }),
      'spend_alerts.mail',
      async (tx) => {
        const alerts = await takeAlerts(tx, organization_id, now)
        const people = await listRecipients(tx, organization_id, PAYER_ROLES)
        const mails = alerts.flatMap((alert) => people.map((person) => ({ alert, person })))
        for (const { alert, person } of mails) {
          await insertMail(tx, { ids, now }, { kind: 'spend_alert', email: person.email, person_id: person.id, spend_alert_id: alert.id })
        }
        return { alerts, mails }
      },
      ({ alerts }) => {
        if (alerts.length === 0) return null // another process has sent them
        const details = { alerts: alerts.map(({ subject, threshold_percent }) => `${subject} ${threshold_percent}`) }
        return { kind: 'organization', id: organization_id, organization_id, project_id: null, details }
      },
    )
    written += mails.mails.length
  }
  return written
}
