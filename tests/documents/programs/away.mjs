// A request to a proxy whose server is away for a moment; tests/documents/test_examples.py runs it.
import { Queue } from './mq.mjs'

await new Queue(process.env.MQ_URL, 'orders').create()
console.log('made')
