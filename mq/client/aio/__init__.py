"""The asynchronous client: asyncio and aiohttp."""
