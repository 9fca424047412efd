import assert from 'node:assert/strict';
import { Octokit } from '@octokit/rest';
import { WebClient } from '@slack/web-api';
import twilio from 'twilio';

const at = (host) => `http://127.0.0.1:${process.env[host]}`;

const octokit = new Octokit({ auth: 'ghp_test', baseUrl: at('API_GITHUB_COM') });
const made = await octokit.issues.create({ owner: 'acme', repo: 'shop', title: 'A lamp is broken' });
assert.equal(made.status, 201);
const issue = await octokit.issues.get({ owner: 'acme', repo: 'shop', issue_number: made.data.number });
assert.equal(issue.data.title, 'A lamp is broken');
await octokit.issues.createComment({ owner: 'acme', repo: 'shop', issue_number: made.data.number, body: 'Fixed.' });
await assert.rejects(octokit.issues.get({ owner: 'acme', repo: 'shop', issue_number: 999 }), { status: 404 });
assert.equal((await octokit.users.getAuthenticated()).data.login, 'hothouse');
await assert.rejects(octokit.repos.listBranches({ owner: 'acme', repo: 'shop' }), { status: 501 });

const slack = new WebClient('xoxb-test', { slackApiUrl: `${at('SLACK_COM')}/api/`, retryConfig: { retries: 0 } });
const said = await slack.chat.postMessage({ channel: 'C000000001', text: 'hello' });
assert.equal(said.message.text, 'hello');
assert.equal((await slack.auth.test()).team, 'Hothouse');
assert.equal((await slack.conversations.list()).channels[0].name, 'general');

// Twilio's client has no base URL: only its own HTTP client can lead elsewhere.
const client = twilio('AC00000000000000000000000000000000', 'secret');
const request = client.httpClient.request.bind(client.httpClient);
client.httpClient.request = (options) => request({ ...options, uri: options.uri.replace('https://api.twilio.com', at('API_TWILIO_COM')) });
const message = await client.messages.create({ to: '+15005550006', from: '+15005550006', body: 'Your order is on its way' });
assert.match(message.sid, /^SM[0-9a-f]{32}$/);
await assert.rejects(client.messages.create({ to: '+15005550001', from: '+15005550006', body: 'x' }), { code: 21211 });
console.log('done');
