"""What a step's profile shows: its kernels in order, their bytes and FLOPs, and the GPU's bounds."""
