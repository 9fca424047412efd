import { trace, context } from '@opentelemetry/api'
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node'
import { OTLPTraceExporter as Protobuf } from '@opentelemetry/exporter-trace-otlp-proto'
import { OTLPTraceExporter as Json } from '@opentelemetry/exporter-trace-otlp-http'

for (const Exporter of [Protobuf, Json]) {
  const exporter = new Exporter({ url: `http://127.0.0.1:${process.env.API_HONEYCOMB_IO}/v1/traces` })
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  const tracer = provider.getTracer('test')
  const outer = tracer.startSpan('outer', { attributes: { n: 1, list: ['a', 'b'] } })
  const inner = tracer.startSpan('inner', {}, trace.setSpan(context.active(), outer))
  inner.recordException(new Error('boom'))
  inner.end()
  await provider.forceFlush()
  outer.end()
  await provider.forceFlush()
  await provider.shutdown()
}
console.log('done')
