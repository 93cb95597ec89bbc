"""The clients of a server, synchronous and for asyncio. They import neither torch nor the extensions."""
