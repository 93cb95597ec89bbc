"""Reads a step's profile: its kernels in order, their bytes and FLOPs, and the GPU's bounds."""
