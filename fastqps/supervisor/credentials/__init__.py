"""Certificates and tokens: read, checked, and reloaded when their files change."""
