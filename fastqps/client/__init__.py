"""The synchronous and the asyncio client. They import neither torch nor the extensions."""
