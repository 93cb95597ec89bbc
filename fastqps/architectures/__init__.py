"""Model families, built of the operations that a device brings. One module for each family."""
