// A renewal that is never answered; tests/documents/test_examples.py runs it.
import { setTimeout as sleep } from 'node:timers/promises'
import { Queue } from './mq.mjs'

const orders = new Queue(process.env.MQ_URL, 'orders')
const ask = globalThis.fetch
console.error = () => {}
globalThis.fetch = async (url, options) => {
  const asked = new URL(url).searchParams
  if (!asked.has('id') || asked.get('visibility') === '1') return ask(url, options)
  return new Promise((_, reject) => options.signal.addEventListener('abort', () => reject(options.signal.reason)))
}
await orders.publish('two coffees')
const stop = new AbortController()
await orders.work(async (_, lost) => {
  stop.abort()
  const over = new Promise((resolve) => lost.addEventListener('abort', () => resolve('the lease is over')))
  const found = await Promise.race([over, sleep(30_000, 'the renewal hangs')])
  console.log(found)
  if (found !== 'the lease is over') process.exit(1)
  throw new Error('not now')
}, { visibility: 2.6, signal: stop.signal }) // seconds need not be whole
process.exit()
