"""The asynchronous client: asyncio and aiohttp. What the blocking client does too belongs in
`mq.client`."""
