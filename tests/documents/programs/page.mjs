// What a proxy answers in the server's place is no success; tests/documents/test_examples.py runs it.
import { Queue } from './mq.mjs'

const orders = new Queue(process.env.MQ_URL, 'orders')
const refused = (error) => console.log(error.status)
await orders.publish('two coffees').then(console.log, refused)
await orders.receive().then(console.log, refused)
