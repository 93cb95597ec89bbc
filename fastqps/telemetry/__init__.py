"""Metrics, traces, the live page, and the capacity file."""
