"""The demo: real embeddings from a real server, under load, checked. ``make demo``."""
