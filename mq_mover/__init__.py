"""mq-mover: moves due messages from `delay` back to their queues. It blocks, and loads neither
asyncio nor HTTP. How a message is moved belongs in `mq.spool.redelivery`, which servers use too."""
