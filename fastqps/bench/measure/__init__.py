"""One measurement: the server, the load, and what both report."""
