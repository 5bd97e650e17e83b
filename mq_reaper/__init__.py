"""mq-reaper: unlinks removed messages and deleted queues. It blocks, and loads neither asyncio nor
HTTP. What moves a message to `remove` belongs in `mq.store` and `mq.spool`."""
