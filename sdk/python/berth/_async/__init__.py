"""The client for ``asyncio``, and the source of the one for threads."""
