"""What a step's profile shows: its kernels in order, their bytes and FLOPs, the GPU's bounds, possible changes."""
