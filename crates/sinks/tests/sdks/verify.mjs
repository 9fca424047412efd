import assert from 'node:assert'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import Stripe from 'stripe'
import { Webhook as Svix } from 'svix'
import { Webhook as Standard } from 'standardwebhooks'
import { Webhooks } from '@octokit/webhooks'
import { verifyKey } from 'discord-interactions'
import twilio from 'twilio'
import sendgrid from '@sendgrid/eventwebhook'

const form = text => Object.fromEntries(new URLSearchParams(text))
const throwing = check => { try { check(); return true } catch { return false } }
const verify = {
  stripe: d => throwing(() => new Stripe('sk_test_x').webhooks.constructEvent(d.body, d.headers['stripe-signature'], d.secret)),
  svix: d => throwing(() => new Svix(d.secret).verify(d.body, d.headers)),
  clerk: d => throwing(() => new Svix(d.secret).verify(d.body, d.headers)),
  standard: d => throwing(() => new Standard(d.secret).verify(d.body, d.headers)),
  github: d => new Webhooks({ secret: d.secret }).verify(d.body, d.headers['x-hub-signature-256']),
  discord: d => verifyKey(d.body, d.headers['x-signature-ed25519'], d.headers['x-signature-timestamp'], d.public),
  twilio: d => twilio.validateRequest(d.secret, d.headers['x-twilio-signature'], d.url, form(d.body)),
  sendgrid: d => {
    const hook = new sendgrid.EventWebhook()
    const name = end => d.headers[`x-twilio-email-event-webhook-${end}`]
    return hook.verifySignature(hook.convertPublicKeyToECDSA(d.public), d.body, name('signature'), name('timestamp'))
  },
  // What Slack and Shopify document; their packages want a whole app around it.
  slack: d => {
    const at = d.headers['x-slack-request-timestamp']
    const wanted = 'v0=' + createHmac('sha256', d.secret).update(`v0:${at}:${d.body}`).digest('hex')
    return d.headers['x-slack-signature'] === wanted && Math.abs(Date.now() / 1000 - at) < 300
  },
  shopify: d => d.headers['x-shopify-hmac-sha256'] === createHmac('sha256', d.secret).update(d.body).digest('base64'),
}
// Who says when a webhook was signed, and checks it; and who takes two signatures.
const timed = ['stripe', 'svix', 'clerk', 'standard', 'slack']
const several = ['stripe', 'svix', 'clerk', 'standard']
for (const delivery of JSON.parse(readFileSync('deliveries.json'))) {
  const { vendor, how } = delivery
  const expected = { ordinary: true, 'wrong-secret': false, 'stale-timestamp': !timed.includes(vendor), 'rotated-secret': several.includes(vendor) }[how]
  assert.equal(Boolean(await verify[vendor](delivery)), expected, `${vendor} ${how}`)
}
console.log('done')
