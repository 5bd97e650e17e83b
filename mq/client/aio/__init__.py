"""The asynchronous client: asyncio and aiohttp.

`client`, `queue`, `message` and `worker` are what programs see. `session` runs their operations
over `connections`, for which `connectors` has what aiohttp lacks.

What the blocking client does too belongs in `mq.client`.
"""
