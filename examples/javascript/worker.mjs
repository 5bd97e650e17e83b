// A worker in JavaScript, with the client in mq.mjs.
//
//     node worker.mjs
import { Queue } from './mq.mjs'

const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stop.abort())

const orders = new Queue(process.env.MQ_URL ?? 'http://127.0.0.1:8080', 'orders', process.env.MQ_TOKEN)
await orders.create()
await orders.work((message) => console.log(`brewing ${message.text()}`), { signal: stop.signal })
