"""Models in this process, without a server."""
