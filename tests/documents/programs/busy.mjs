// A proxy that asks to come again later, and a worker that is to end; tests/documents/test_examples.py
// runs it.
import { Queue } from './mq.mjs'

const orders = new Queue(process.env.MQ_URL, 'orders')
await orders.publish('two coffees').then(console.log, (error) => console.log(error.status))
const stop = new AbortController()
const ask = globalThis.fetch
globalThis.fetch = async (url, options) => {
  const answer = await ask(url, options)
  setTimeout(() => stop.abort(), 100)
  return answer
}
await orders.work(() => {}, { signal: stop.signal })
console.log('ended')
