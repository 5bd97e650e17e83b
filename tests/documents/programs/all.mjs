// What the client of examples/javascript does; tests/documents/test_examples.py runs it beside it.
import { Queue } from './mq.mjs'

const orders = new Queue(process.env.MQ_URL, 'orders')
const properties = { 'x-meta-shop': 'north', tracestate: 'a=1', baggage: 'b=2', 'content-language': 'en' }
await orders.publish('two coffees', { properties, contentType: 'text/plain' })
const stop = new AbortController()
console.error = () => {}
await orders.work(async (message) => {
  const isFirst = message.receiveCount === 1
  console.log(isFirst ? 'received' : 'again', message.text(), message.receiveCount)
  if (isFirst) throw new Error('not now')
  for (const [name, value] of Object.entries(properties)) {
    if (message.properties[name] !== value) throw new Error(`no ${name}`)
  }
  stop.abort()
}, { signal: stop.signal })
console.log(await orders.receive({ wait: 0 }) === null ? 'empty' : 'not empty')
const refused = (error) => console.log(error.status, error.type)
await new Queue(process.env.MQ_URL, 'nowhere').receive().catch(refused)
await orders.publish('tea', { id: 'tea-1' })
const tea = await orders.receive()
await orders.extend(tea, 0)
const again = await orders.receive()
await orders.remove(tea).catch(refused)
await orders.remove(again)
