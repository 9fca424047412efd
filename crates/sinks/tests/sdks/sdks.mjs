import assert from 'node:assert'
const at = name => `http://127.0.0.1:${process.env[name]}`

{
  const { PostHog } = await import('posthog-node')
  const client = new PostHog('phc_x', { host: at('US_I_POSTHOG_COM'), flushAt: 1 })
  assert.equal(await client.isFeatureEnabled('new-ui', 'u1'), true)
  assert.equal(await client.getFeatureFlag('arm', 'u1'), 'test')
  client.capture({ distinctId: 'u1', event: 'paid', properties: { plan: 'pro' } })
  client.identify({ distinctId: 'u1', properties: { email: 'a@b.example' } })
  await client.shutdown()
  console.log('posthog-node')
}
{
  const { Analytics } = await import('@segment/analytics-node')
  const client = new Analytics({ writeKey: 'k', host: at('API_SEGMENT_IO'), flushAt: 1 })
  client.track({ userId: 'u1', event: 'Paid', properties: { total: 3 } })
  client.group({ userId: 'u1', groupId: 'g1', traits: { name: 'Acme' } })
  await client.closeAndFlush()
  console.log('@segment/analytics-node')
}
{
  const Mixpanel = (await import('mixpanel')).default
  const client = Mixpanel.init('t', { host: `127.0.0.1:${process.env.API_MIXPANEL_COM}`, protocol: 'http' })
  await new Promise((done, fail) => client.track('Paid', { distinct_id: 'u1' }, error => (error ? fail(error) : done())))
  await new Promise((done, fail) => client.people.set('u1', { plan: 'pro' }, error => (error ? fail(error) : done())))
  console.log('mixpanel')
}
{
  const amplitude = await import('@amplitude/analytics-node')
  await amplitude.init('k', { serverUrl: `${at('API2_AMPLITUDE_COM')}/2/httpapi`, flushQueueSize: 1 }).promise
  const sent = await amplitude.track('Paid', { total: 3 }, { user_id: 'u1' }).promise
  assert.equal(sent.code, 200)
  console.log('@amplitude/analytics-node')
}
{
  const ld = await import('@launchdarkly/node-server-sdk')
  const base = at('STREAM_LAUNCHDARKLY_COM')
  const quiet = { error() {}, warn() {}, info() {}, debug() {} }
  const client = ld.init('sdk-x', { baseUri: base, streamUri: base, eventsUri: base, logger: quiet })
  await client.waitForInitialization({ timeout: 10 })
  assert.equal(await client.variation('arm', { kind: 'user', key: 'u1' }, 'none'), 'test')
  assert.equal(await client.variation('new-ui', { kind: 'user', key: 'u1' }, false), true)
  await client.flush()
  client.close()
  console.log('@launchdarkly/node-server-sdk')
}
{
  const { startUnleash } = await import('unleash-client')
  const client = await startUnleash({ url: `${at('US_GETUNLEASH_IO')}/api/`, appName: 'a', customHeaders: { Authorization: 'x' }, metricsInterval: 200, metricsJitter: 0 })
  assert.equal(client.isEnabled('new-ui'), true)
  assert.equal(client.getVariant('arm').payload.value, 'test')
  for (let tries = 0; tries < 100 && !client.sent; tries++) {
    client.once('sent', () => { client.sent = true })
    await new Promise(done => setTimeout(done, 50))
  }
  client.destroy()
  console.log('unleash-client')
}
{
  const { OpenFeature } = await import('@openfeature/server-sdk')
  const { OFREPProvider } = await import('@openfeature/ofrep-provider')
  await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: at('OFREP_EXAMPLE') }))
  const client = OpenFeature.getClient()
  assert.equal(await client.getStringValue('arm', 'none'), 'test')
  assert.equal((await client.getBooleanDetails('nothing', false)).errorCode, 'FLAG_NOT_FOUND')
  console.log('@openfeature/ofrep-provider')
}
const weather = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
{
  const OpenAI = (await import('openai')).default
  const client = new OpenAI({ apiKey: 'k', baseURL: `${at('API_OPENAI_COM')}/v1` })
  const messages = [{ role: 'user', content: 'hello there' }]
  const chat = await client.chat.completions.create({ model: 'gpt-4o', messages })
  assert.equal(chat.choices[0].message.content, 'hello there')
  let text = ''
  for await (const chunk of await client.chat.completions.create({ model: 'gpt-4o', messages, stream: true })) text += chunk.choices[0]?.delta?.content ?? ''
  assert.equal(text, 'hello there')
  const tools = [{ type: 'function', function: { name: 'weather', parameters: weather } }]
  const call = await client.chat.completions.create({ model: 'gpt-4o', messages, tools, tool_choice: 'required' })
  assert.ok(JSON.parse(call.choices[0].message.tool_calls[0].function.arguments).city !== undefined)
  assert.equal((await client.responses.create({ model: 'gpt-5', input: 'hello there' })).output_text, 'hello there')
  const final = await client.responses.stream({ model: 'gpt-5', input: 'hello there' }).finalResponse()
  assert.equal(final.output_text, 'hello there')
  const embedding = await client.embeddings.create({ model: 'text-embedding-3-small', input: 'x' })
  assert.equal(embedding.data[0].embedding.length, 1536)
  assert.ok((await client.models.list()).data.length > 0)
  await assert.rejects(client.chat.completions.create({ model: 'gpt-4o', messages: [] }), OpenAI.BadRequestError)
  console.log('openai')
}
{
  const Anthropic = (await import('@anthropic-ai/sdk')).default
  const client = new Anthropic({ apiKey: 'k', baseURL: at('API_ANTHROPIC_COM') })
  const ask = { model: 'claude-sonnet-4-5', max_tokens: 100, messages: [{ role: 'user', content: 'hello there' }] }
  assert.equal((await client.messages.create(ask)).content[0].text, 'hello there')
  assert.equal((await client.messages.stream(ask).finalMessage()).content[0].text, 'hello there')
  const tools = [{ name: 'weather', input_schema: weather }]
  const call = await client.messages.stream({ ...ask, tools, tool_choice: { type: 'any' } }).finalMessage()
  assert.ok(call.content[0].input.city !== undefined)
  assert.ok((await client.messages.countTokens({ model: ask.model, messages: ask.messages })).input_tokens > 0)
  await assert.rejects(client.messages.create({ ...ask, messages: [] }), Anthropic.BadRequestError)
  console.log('@anthropic-ai/sdk')
}
{
  const { GoogleGenAI } = await import('@google/genai')
  const client = new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: at('GENERATIVELANGUAGE_GOOGLEAPIS_COM') } })
  const ask = { model: 'gemini-2.5-flash', contents: 'hello there' }
  assert.equal((await client.models.generateContent(ask)).text, 'hello there')
  let text = ''
  for await (const chunk of await client.models.generateContentStream(ask)) text += chunk.text ?? ''
  assert.equal(text, 'hello there')
  console.log('@google/genai')
}
console.log('done')
process.exit(0)
