"""The kernels that draw a token from logits."""
