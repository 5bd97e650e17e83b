"""mq-reaper: unlinks removed messages and deleted queues. Blocking; no asyncio, no HTTP."""
