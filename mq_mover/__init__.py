"""mq-mover: moves due messages from one folder to another. Blocking; no asyncio, no HTTP."""
