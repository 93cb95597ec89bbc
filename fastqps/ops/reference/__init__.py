"""The operations in plain PyTorch: the reference of all others."""
