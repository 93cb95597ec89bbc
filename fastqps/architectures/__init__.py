"""Model families, built of the operations that a device brings. Each family is one module."""
