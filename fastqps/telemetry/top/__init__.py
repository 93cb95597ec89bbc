"""A running server at a glance: what ``fastqps top`` shows."""
