// A renewal that is slow on its way when the work fails; tests/documents/test_examples.py runs it.
import { setTimeout as sleep } from 'node:timers/promises'
import { Queue } from './mq.mjs'

const orders = new Queue(process.env.MQ_URL, 'orders')
const ask = globalThis.fetch
console.error = () => {}
let end
const hasFailed = new Promise((resolve) => (end = resolve))
let renewals = 0
globalThis.fetch = async (url, options) => {
  const asked = new URL(url).searchParams
  const isFirst = asked.get('visibility') === '3' && asked.has('id') && ++renewals === 1
  if (isFirst) await hasFailed
  if (asked.get('visibility') === '1') console.log('back in a second')
  const answer = await ask(url, options)
  if (isFirst) console.log('renewed')
  return answer
}
await orders.publish('two coffees')
const stop = new AbortController()
await orders.work(async () => {
  await sleep(2200)
  setTimeout(end, 300)
  stop.abort()
  throw new Error('not now')
}, { visibility: 3, signal: stop.signal })
