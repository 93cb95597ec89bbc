"""The pages that are written from bench/results."""
