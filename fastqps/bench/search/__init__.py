"""Searches over rates and settings, by noisy measurements."""
