"""The operations on a GPU: own kernels between the matrix products."""
