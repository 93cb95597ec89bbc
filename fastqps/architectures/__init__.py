"""Architectures: the arithmetic of models, built of the operations that a device brings. Families are in ``models``."""
