"""The operations of models in plain torch, on any device: tests compare every other device's operations with them."""
