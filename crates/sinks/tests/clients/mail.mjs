// Mail by SMTP and by the SDKs of vendors; every failure ends the program.
import assert from 'node:assert';
import FormData from 'form-data';
import mailchimp from '@mailchimp/mailchimp_transactional';
import Mailgun from 'mailgun.js';
import nodemailer from 'nodemailer';
import postmark from 'postmark';
import sendgrid from '@sendgrid/mail';
import twilio from 'twilio';
import { Vonage } from '@vonage/server-sdk';

const port = (name) => process.env[name];
const url = (name) => `http://127.0.0.1:${port(name)}`;
const subject = 'Grüße';
const text = 'Your code is 482913, see https://shop.example/o/77.';
const html = '<p>Your code is 482913, see <a href="https://shop.example/o/77">it</a></p>';
const content = Buffer.from('abc');

const smtp = nodemailer.createTransport({ host: '127.0.0.1', port: port('SMTP'), auth: { user: 'u', pass: 'p' } });
const sent = await smtp.sendMail({
  from: 'Shop <shop@acme.example>', to: 'ann@x.example', bcc: 'hidden@x.example', subject, text, html,
  attachments: [{ filename: 'ä.txt', content }],
});
assert.equal(sent.accepted.length, 2);

process.env.RESEND_BASE_URL = url('API_RESEND_COM');
const { Resend } = await import('resend');
const resend = new Resend('re_test');
const one = await resend.emails.send({
  from: 'Shop <shop@acme.example>', to: ['ann@x.example'], bcc: 'hidden@x.example', subject, text, html,
  attachments: [{ filename: 'ä.txt', content }],
});
assert.ok(one.data?.id, JSON.stringify(one.error));
const batch = await resend.batch.send([{ from: 'a@x.example', to: 'b@x.example', subject: 'batch', text: 'x' }]);
assert.equal(batch.data?.data.length, 1, JSON.stringify(batch));
const refused = await resend.emails.send({ from: 'a@x.example', subject: 's', text: 't' });
assert.equal(refused.error?.name, 'missing_required_field');

sendgrid.setApiKey('SG.test');
sendgrid.client.setDefaultRequest('baseUrl', `${url('API_SENDGRID_COM')}/`);
const [accepted] = await sendgrid.send({
  from: { name: 'Shop', email: 'shop@acme.example' }, to: 'ann@x.example', bcc: 'hidden@x.example', subject, text, html,
  attachments: [{ filename: 'ä.txt', content: content.toString('base64'), type: 'text/plain' }],
});
assert.equal(accepted.statusCode, 202);
assert.ok(accepted.headers['x-message-id']);
await assert.rejects(sendgrid.send({ from: 'shop@acme.example', to: 'broken', subject, text }), /Bad Request/);

const server = new postmark.ServerClient('token', { requestHost: `127.0.0.1:${port('API_POSTMARKAPP_COM')}`, useHttps: false });
const answer = await server.sendEmail({
  From: 'shop@acme.example', To: 'ann@x.example', Bcc: 'hidden@x.example', Subject: subject, TextBody: text, HtmlBody: html,
  Attachments: [{ Name: 'ä.txt', Content: content.toString('base64'), ContentType: 'text/plain', ContentID: null }],
});
assert.equal(answer.ErrorCode, 0);
await assert.rejects(server.sendEmail({ From: 'shop@acme.example', Subject: 'x', TextBody: 'x' }), (error) => error.code === 300);

const mailgun = new Mailgun(FormData).client({ username: 'api', key: 'k', url: url('API_MAILGUN_NET') });
const queued = await mailgun.messages.create('acme.example', {
  from: 'Shop <shop@acme.example>', to: ['ann@x.example'], bcc: 'hidden@x.example', subject, text, html,
  attachment: { filename: 'ä.txt', data: content },
});
assert.match(queued.message, /Queued/);
await assert.rejects(mailgun.messages.create('acme.example', { from: 'a@x.example', text: 'x' }), (error) => error.status === 400);

const mandrill = mailchimp('key');
mandrill.basePath = `${url('MANDRILLAPP_COM')}/api/1.3`;
const each = await mandrill.messages.send({
  message: {
    from_email: 'shop@acme.example', subject, text, html,
    to: [{ email: 'ann@x.example' }, { email: 'hidden@x.example', type: 'bcc' }],
    attachments: [{ name: 'ä.txt', type: 'text/plain', content: content.toString('base64') }],
  },
});
assert.deepEqual(each.map((one) => one.status), ['sent', 'sent'], JSON.stringify(each.response?.data ?? each));

const vonage = new Vonage(
  { apiKey: 'k', apiSecret: 's' },
  { restHost: url('REST_NEXMO_COM'), apiHost: url('REST_NEXMO_COM') },
);
const sms = await vonage.sms.send({ to: '15550001', from: 'Acme', text: 'Your code is 482913' });
assert.equal(sms.messages[0].status, '0');

const httpClient = {
  // The SDK has no base URL: its own client is replaced by one that goes to loopback.
  async request({ method, uri, data, headers }) {
    const target = uri.replace('https://api.twilio.com', url('API_TWILIO_COM'));
    const response = await fetch(target, { method, headers, body: new URLSearchParams(data) });
    return { statusCode: response.status, body: await response.json() };
  },
};
const phone = twilio('AC00000000000000000000000000000000', 'token', { httpClient });
const message = await phone.messages.create({ to: '+15550001', from: '+15550002', body: 'Your code is 482913' });
assert.match(message.sid, /^SM/);
await assert.rejects(phone.messages.create({ from: '+15550002', body: 'x', to: '' }), (error) => error.code === 21604);
console.log('done');
