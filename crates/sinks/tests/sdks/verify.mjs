import assert from 'node:assert'
import { readFileSync } from 'node:fs'
import Stripe from 'stripe'
import { Webhook as Svix } from 'svix'
import { Webhook as Standard } from 'standardwebhooks'
import { Webhooks } from '@octokit/webhooks'
import { verifyKey } from 'discord-interactions'
import twilio from 'twilio'
import sendgrid from '@sendgrid/eventwebhook'
import bolt from '@slack/bolt'
import '@shopify/shopify-api/adapters/node'
import { shopifyApi } from '@shopify/shopify-api'

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
  slack: d => bolt.isValidSlackRequest({ signingSecret: d.secret, body: d.body, headers: d.headers }),
  shopify: async d => {
    const shopify = shopifyApi({ apiKey: 'key', apiSecretKey: d.secret, scopes: [], hostName: 'app.example', apiVersion: '2026-07', isEmbeddedApp: false, logger: { level: 0 } })
    const rawRequest = { method: 'POST', url: '/hook', headers: d.headers }
    return (await shopify.webhooks.validate({ rawBody: d.body, rawRequest, rawResponse: {} })).valid
  },
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
