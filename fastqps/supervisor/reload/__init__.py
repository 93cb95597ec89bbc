"""Reloads models: warms up a new version while the old one serves."""
