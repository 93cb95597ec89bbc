"""Servers under the suite: how they start, are loaded and reported, and what stands in for them in a dry run."""
