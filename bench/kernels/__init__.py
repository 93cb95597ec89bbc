"""Ahead-of-time compilation of every kernel, without a GPU, and what the machine code says."""
