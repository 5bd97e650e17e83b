// How many of a worker's requests still listen to its signal; tests/documents/test_examples.py runs it.
import { getEventListeners } from 'node:events'
import { Queue } from './mq.mjs'

const orders = new Queue(process.env.MQ_URL, 'orders')
for (let number = 1; number <= 12; number += 1) await orders.publish(String(number))
const stop = new AbortController()
await orders.work((message) => {
  if (message.text() === '12') {
    console.log(getEventListeners(stop.signal, 'abort').length)
    stop.abort()
  }
}, { signal: stop.signal })
